import type { HandlersOf } from '../../../shared/inbox/index.ts';
import type { analytics } from '../catalogue/consumers.ts';
import type { catalogue } from '../catalogue/index.ts';
import { count } from './day.ts';

/** What analytics does with each event of an invoice: it counts, so their order does not matter. */
export const handlers: HandlersOf<typeof catalogue, typeof analytics> = {
  'invoice.issued': (event, { tx }) => count(tx, event, event.data.currency, event.data.totalMinor),
  'invoice.payment-recorded': (event, { tx }) => count(tx, event, event.data.currency, event.data.amountMinor),
  'invoice.paid': (event, { tx }) => count(tx, event, event.data.currency, event.data.totalMinor),
};
