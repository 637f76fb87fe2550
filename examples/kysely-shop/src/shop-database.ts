import { type ColumnType, CompiledQuery, Kysely, PostgresDialect, type Transaction } from 'kysely';
import type pg from 'pg';
import type { Transaction as OutboxTransaction } from 'sealed-outbox';

export interface Shop {
  'shop.purchase': {
    id: string;
    customer_id: string;
    items: number;
    placed_at: ColumnType<Date, never, never>;
  };
}

export function shopDatabase(pool: pg.Pool): Kysely<Shop> {
  return new Kysely<Shop>({ dialect: new PostgresDialect({ pool }) });
}

/** What the outbox asks of a transaction: one statement with `$1` parameters. Every ORM that runs raw SQL in its transaction has it in one line. */
export function outboxTransaction(trx: Transaction<Shop>): OutboxTransaction {
  return {
    async query(text, values = []) {
      const { rows } = await trx.executeQuery(CompiledQuery.raw(text, [...values]));
      return { rows, rowCount: rows.length };
    },
  };
}
