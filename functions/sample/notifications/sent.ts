import type { Queryable } from '../../../shared/database/index.ts';
import type { ReceivedEvent } from '../../../shared/events/index.ts';

/** Writes down that a mail went out, under the provider's id of it. @param recipient sealed for this row */
export async function noteSent(
  tx: Queryable,
  event: ReceivedEvent,
  mailId: string,
  recipient: string | null,
): Promise<void> {
  await tx.query('insert into sample.notification (event_id, invoice_id, mail_id, recipient) values ($1, $2, $3, $4)', [
    event.id,
    event.aggregateId,
    mailId,
    recipient,
  ]);
}
