import type { Queryable } from '../../../shared/database/index.ts';
import type { ReceivedEvent } from '../../../shared/events/index.ts';

/** What an event does to the read model of one invoice. Amounts in minor units. */
export type LedgerChange =
  | {
      readonly kind: 'issued';
      readonly currency: string;
      readonly amountMinor: number;
      /** Sealed for the row. */
      readonly customerName?: string | null;
    }
  | { readonly kind: 'payment'; readonly amountMinor: number }
  | { readonly kind: 'paid'; readonly amountMinor: 0 };

/**
 * Applies one change. It builds on what the events before it left behind (payments are added up), so it is right only if
 * each comes once and in order: which is what a strict consumer promises.
 */
export async function applyChange(tx: Queryable, event: ReceivedEvent, change: LedgerChange): Promise<void> {
  const invoiceId = event.aggregateId;
  const sequence = event.sequence.toString();
  await tx.query(
    `insert into sample.ledger_entry (event_id, invoice_id, sequence, kind, amount_minor) values ($1, $2, $3, $4, $5)`,
    [event.id, invoiceId, sequence, change.kind, change.amountMinor],
  );
  if (change.kind === 'issued') {
    await tx.query(
      `insert into sample.ledger_invoice (invoice_id, currency, total_minor, status, last_sequence, customer_name)
       values ($1, $2, $3, 'issued', $4, $5)`,
      [invoiceId, change.currency, change.amountMinor, sequence, change.customerName ?? null],
    );
    return;
  }
  const updated = await tx.query(
    `update sample.ledger_invoice
        set paid_minor = paid_minor + $2, status = $3, last_sequence = $4, effects = effects + 1
      where invoice_id = $1`,
    [invoiceId, change.amountMinor, change.kind === 'paid' ? 'paid' : 'part-paid', sequence],
  );
  // Not reachable in order: the first event of an invoice is its issue.
  if (updated.rowCount !== 1) throw new Error('the invoice is not in the ledger');
}
