import type { Queryable } from '../../../shared/database/index.ts';
import { invoiceView } from './invoice-view.ts';
import { type Answer, jsonAnswer, ProblemError } from './problem.ts';

/** @throws ProblemError 404 */
export async function readInvoice(db: Queryable, id: string): Promise<Answer> {
  const { rows } = await db.query(
    `select id, customer_id, currency, total_minor, paid_minor, lines, due_on::text as due_on, issued_at
       from sample.invoice
      where id = $1`,
    [id],
  );
  const [row] = rows;
  if (row === undefined) throw new ProblemError('not-found', 'There is no invoice with this id.');
  const view = invoiceView({
    id: row.id,
    customerId: row.customer_id,
    currency: row.currency,
    totalMinor: Number(row.total_minor),
    paidMinor: Number(row.paid_minor),
    lines: row.lines,
    dueOn: row.due_on,
    issuedAt: row.issued_at,
  });
  return jsonAnswer(200, view);
}
