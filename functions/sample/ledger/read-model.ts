import type pg from 'pg';
import type { ReceivedEvent } from '../../../shared/events/index.ts';

/** What one event does to the read model of its invoice. Amounts in minor units. */
interface Change {
  readonly event: ReceivedEvent;
  readonly amountMinor: number;
}

interface Issue extends Change {
  readonly currency: string;
  /** Sealed for the row. */
  readonly customerName?: string | null;
}

/**
 * Enters invoices in the ledger.
 *
 * Its statements write for any number of events and have names: the server plans each once per connection, where it would take longer to plan
 * one than to run it.
 */
export async function issue(tx: pg.ClientBase, issues: readonly Issue[]): Promise<void> {
  await enter(tx, 'issued', issues);
  await tx.query({
    name: 'ledger-issue',
    text: `insert into sample.ledger_invoice (invoice_id, currency, total_minor, status, last_sequence, customer_name)
           select i.id, i.currency, i.total, 'issued', i.sequence, i.name
             from unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[], $5::text[]) i (id, currency, total, sequence, name)`,
    values: [
      issues.map(({ event }) => event.aggregateId),
      issues.map(({ currency }) => currency),
      issues.map(({ amountMinor }) => amountMinor),
      issues.map(({ event }) => event.sequence.toString()),
      issues.map(({ customerName }) => customerName ?? null),
    ],
  });
}

/**
 * Applies payments, or the notice that an invoice is paid. It builds on what the events before left behind (payments are added up), so it is
 * right only if each comes once and in order: which is what a strict consumer promises.
 */
export async function pay(tx: pg.ClientBase, kind: 'payment' | 'paid', changes: readonly Change[]): Promise<void> {
  await enter(tx, kind, changes);
  const updated = await tx.query({
    name: 'ledger-pay',
    text: `update sample.ledger_invoice i
              set paid_minor = i.paid_minor + c.amount, status = $4, last_sequence = c.sequence, effects = i.effects + c.events
             from (select id, sum(amount) as amount, max(sequence) as sequence, count(*) as events
                     from unnest($1::uuid[], $2::bigint[], $3::bigint[]) u (id, amount, sequence) group by id) c
            where i.invoice_id = c.id`,
    values: [
      changes.map(({ event }) => event.aggregateId),
      changes.map(({ amountMinor }) => amountMinor),
      changes.map(({ event }) => event.sequence.toString()),
      kind === 'paid' ? 'paid' : 'part-paid',
    ],
  });
  // Not reachable in order: the first event of an invoice is its issue.
  const invoices = new Set(changes.map(({ event }) => event.aggregateId)).size;
  if (updated.rowCount !== invoices) throw new Error('an invoice is not in the ledger');
}

/** A line for each event, in the order given. */
async function enter(tx: pg.ClientBase, kind: string, changes: readonly Change[]): Promise<void> {
  await tx.query({
    name: 'ledger-enter',
    text: `insert into sample.ledger_entry (event_id, invoice_id, sequence, kind, amount_minor)
           select e.event, e.invoice, e.sequence, $5, e.amount
             from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[]) with ordinality e (event, invoice, sequence, amount, place)
            order by e.place`,
    values: [
      changes.map(({ event }) => event.id),
      changes.map(({ event }) => event.aggregateId),
      changes.map(({ event }) => event.sequence.toString()),
      changes.map(({ amountMinor }) => amountMinor),
      kind,
    ],
  });
}
