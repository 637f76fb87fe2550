import type { DataOf } from '../../../shared/events/index.ts';
import type { Service } from './service.ts';
import { type Answer, jsonAnswer, ProblemError } from './problem.ts';
import { invoiceView } from './invoice-view.ts';
import type { schemas } from './schemas.ts';
import type { Unit } from './unit-of-work.ts';

type IssueInvoice = DataOf<typeof schemas.issueInvoice>;

/** Writes the invoice and says so, in one transaction. */
export async function issueInvoice(service: Service, { tx, metadata }: Unit, body: IssueInvoice): Promise<Answer> {
  const id = service.newId();
  const totalMinor = total(body.lines);
  const { rows } = await tx.query(
    `insert into sample.invoice (id, customer_id, currency, total_minor, lines, due_on)
     values ($1, $2, $3, $4, $5, $6)
     returning issued_at`,
    [id, body.customerId, body.currency, totalMinor, JSON.stringify(body.lines), body.dueOn],
  );
  await service.outbox.append(tx, [
    {
      type: 'invoice.issued',
      aggregate: { type: 'invoice', id },
      data: { invoiceId: id, totalMinor, ...body },
      metadata,
    },
  ]);
  const view = invoiceView({ ...body, id, totalMinor, paidMinor: 0, issuedAt: rows[0].issued_at });
  return jsonAnswer(201, view, { location: `/invoices/${id}` });
}

/** Reckoned in bigint: 200 lines of a million pieces leave 2^53 behind easily. */
function total(lines: IssueInvoice['lines']): number {
  const sum = lines.reduce((so, line) => so + BigInt(line.quantity) * BigInt(line.unitPriceMinor), 0n);
  if (sum > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new ProblemError('invalid-request', 'The total is more than this service can count.', {
      violations: [{ pointer: '/lines', detail: `must come to at most ${Number.MAX_SAFE_INTEGER} together` }],
    });
  }
  return Number(sum);
}
