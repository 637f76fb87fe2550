import type { Handlers } from '../../../shared/inbox/index.ts';
import type { catalogue } from '../catalogue/index.ts';
import { applyChange } from './read-model.ts';

/** What the ledger does with each event of an invoice. */
export const handlers: Handlers<typeof catalogue> = {
  'invoice.issued': (event, { tx }) =>
    applyChange(tx, event, { kind: 'issued', currency: event.data.currency, amountMinor: event.data.totalMinor }),
  'invoice.payment-recorded': (event, { tx }) =>
    applyChange(tx, event, { kind: 'payment', amountMinor: event.data.amountMinor }),
  'invoice.paid': (event, { tx }) => applyChange(tx, event, { kind: 'paid', amountMinor: 0 }),
};
