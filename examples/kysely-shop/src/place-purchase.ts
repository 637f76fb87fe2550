import type { Kysely } from 'kysely';
import { outbox } from './events.ts';
import { outboxTransaction, type Shop } from './shop-database.ts';

export interface Purchase {
  /** UUID, chosen by the caller. */
  readonly id: string;
  readonly customerId: string;
  readonly items: number;
}

/** The row and its event, in one transaction of Kysely's. @returns the event's place in the purchase's history */
export async function placePurchase(db: Kysely<Shop>, { id, customerId, items }: Purchase): Promise<bigint> {
  return db.transaction().execute(async (trx) => {
    await trx.insertInto('shop.purchase').values({ id, customer_id: customerId, items }).execute();
    const [event] = await outbox.append(outboxTransaction(trx), [
      { type: 'purchase.placed', aggregate: { type: 'purchase', id }, data: { purchaseId: id, items } },
    ]);
    return event?.sequence ?? 0n;
  });
}
