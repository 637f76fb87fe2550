import type { Handlers } from '../../../shared/inbox/index.ts';
import type { catalogue } from '../catalogue/index.ts';
import { count } from './day.ts';

/** What analytics does with each event of an invoice: it counts, so their order does not matter. */
export const handlers: Handlers<typeof catalogue> = {
  'invoice.issued': (event, { tx }) => count(tx, event, event.data.currency, event.data.totalMinor),
  'invoice.payment-recorded': (event, { tx }) => count(tx, event, event.data.currency, event.data.amountMinor),
  'invoice.paid': (event, { tx }) => count(tx, event, event.data.currency, event.data.totalMinor),
};
