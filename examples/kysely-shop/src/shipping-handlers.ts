import type { Handlers } from 'sealed-outbox/consumer';
import type { catalogue } from './events.ts';

/** A parcel for each purchase: the insert commits together with the mark that this event was applied, so there is never a second one. */
export const handlers: Handlers<typeof catalogue> = {
  'purchase.placed': async ({ data }, { tx }) => {
    await tx.query('insert into shop.parcel (purchase_id, items) values ($1, $2)', [data.purchaseId, data.items]);
  },
};
