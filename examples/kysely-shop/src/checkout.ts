import { randomUUID } from 'node:crypto';
import { createPool, databaseConfig } from 'sealed-outbox/database';
import { log } from './log.ts';
import { placePurchase } from './place-purchase.ts';
import { shopDatabase } from './shop-database.ts';

const db = shopDatabase(createPool(databaseConfig(process.env), { max: 1, applicationName: 'checkout', log }));

interface Request {
  readonly customerId: string;
  readonly items: number;
}

/** The shop's function, as it was; `placePurchase` is what has changed. */
export async function handler({ customerId, items }: Request): Promise<{ id: string }> {
  const id = randomUUID();
  await placePurchase(db, { id, customerId, items });
  return { id };
}
