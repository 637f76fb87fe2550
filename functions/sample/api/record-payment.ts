import type { DataOf } from '../../../shared/events/index.ts';
import { statusOf } from './invoice-view.ts';
import { type Answer, jsonAnswer, ProblemError } from './problem.ts';
import type { schemas } from './schemas.ts';
import type { Service } from './service.ts';
import type { Unit } from './unit-of-work.ts';

type RecordPayment = DataOf<typeof schemas.recordPayment>;

/**
 * Writes the payment; the one that settles the invoice brings two events, in this order.
 *
 * @throws ProblemError 404, 409 for more than is owed
 */
export async function recordPayment(
  service: Service,
  { tx, metadata }: Unit,
  invoiceId: string,
  { amountMinor }: RecordPayment,
): Promise<Answer> {
  // Locked, so that two payments at once cannot both find the same rest.
  const found = await tx.query(
    'select currency, total_minor, paid_minor from sample.invoice where id = $1 for no key update',
    [invoiceId],
  );
  const [invoice] = found.rows;
  if (invoice === undefined) throw new ProblemError('not-found', 'There is no invoice with this id.');
  const totalMinor = Number(invoice.total_minor);
  const owedMinor = totalMinor - Number(invoice.paid_minor);
  if (amountMinor > owedMinor) {
    throw new ProblemError('overpayment', `At most ${owedMinor} minor units are still owed. Nothing was recorded.`);
  }
  const paymentId = service.newId();
  const remainingMinor = owedMinor - amountMinor;
  const paidMinor = totalMinor - remainingMinor;
  const { currency } = invoice as { currency: string };
  await tx.query('update sample.invoice set paid_minor = $2 where id = $1', [invoiceId, paidMinor]);
  const { rows } = await tx.query(
    'insert into sample.payment (id, invoice_id, amount_minor) values ($1, $2, $3) returning recorded_at',
    [paymentId, invoiceId, amountMinor],
  );
  const aggregate = { type: 'invoice', id: invoiceId } as const;
  await service.outbox.append(tx, [
    {
      type: 'invoice.payment-recorded',
      aggregate,
      data: { invoiceId, paymentId, currency, amountMinor, paidMinor, remainingMinor },
      metadata,
    },
    ...(remainingMinor === 0
      ? [{ type: 'invoice.paid', aggregate, data: { invoiceId, currency, totalMinor }, metadata } as const]
      : []),
  ]);
  return jsonAnswer(201, {
    id: paymentId,
    invoiceId,
    currency,
    amountMinor,
    paidMinor,
    remainingMinor,
    status: statusOf(remainingMinor),
    recordedAt: (rows[0].recorded_at as Date).toISOString(),
  });
}
