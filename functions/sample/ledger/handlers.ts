import { type HandlersOf, handlerSteps } from '../../../shared/inbox/index.ts';
import { isSealed, type Keyring } from '../../../shared/sealing/index.ts';
import type { ledger } from '../catalogue/consumers.ts';
import type { catalogue } from '../catalogue/index.ts';
import { nameForLedger, sealedName } from './customer-name.ts';
import { issue, pay } from './read-model.ts';

type LedgerHandlers = HandlersOf<typeof catalogue, typeof ledger>;

/** What the ledger does with the events of invoices. It opens nothing. */
export const handlers = {
  'invoice.issued': {
    handleMany: (events, { tx }) =>
      issue(
        tx,
        events.map((event) => ({ event, currency: event.data.currency, amountMinor: event.data.totalMinor })),
      ),
  },
  'invoice.payment-recorded': {
    handleMany: (events, { tx }) =>
      pay(
        tx,
        'payment',
        events.map((event) => ({ event, amountMinor: event.data.amountMinor })),
      ),
  },
  'invoice.paid': {
    handleMany: (events, { tx }) =>
      pay(
        tx,
        'paid',
        events.map((event) => ({ event, amountMinor: 0 })),
      ),
  },
} as const satisfies LedgerHandlers;

/**
 * The same, and the ledger keeps the customer's name, sealed for its own row: it is moved from place to place without being read. The
 * consumer itself opens no class.
 */
export function namingHandlers(keyring: Keyring): LedgerHandlers {
  return {
    ...handlers,
    'invoice.issued': handlerSteps({
      before: async (event) => {
        const name = event.data.customer?.name;
        return isSealed(name) ? sealedName(keyring, name) : undefined;
      },
      handle: async (event, context) => {
        const name = context.before === undefined ? null : nameForLedger(event, context.before);
        const { currency, totalMinor } = event.data;
        await issue(context.tx, [{ event, currency, amountMinor: totalMinor, customerName: name }]);
      },
    }),
  };
}
