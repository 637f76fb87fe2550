import type pg from 'pg';
import { parseEnvelope } from '../../shared/events/index.ts';
import { placeOf } from '../../shared/inbox/take.ts';
import { batches, type Invoices } from './invoices.ts';

/** Early events, kept as a consumer keeps them: by `inbox.hold`, a thousand a transaction. */
export async function holdEvents(
  pool: pg.Pool,
  { name, mode }: { readonly name: string; readonly mode: string },
  invoices: Invoices,
): Promise<void> {
  for (const records of batches(invoices, 1000)) {
    const held = records.map(({ body }) => {
      const parsed = parseEnvelope(body);
      if (!parsed.ok) throw new Error(parsed.reason);
      return { ...placeOf(parsed.event), time: parsed.event.time, reason: 'gap', body, error: null, blocks: true };
    });
    await pool.query('select from inbox.hold($1, $2, $3)', [name, mode, JSON.stringify(held)]);
  }
}
