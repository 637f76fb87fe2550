import type { Queryable } from '../../../shared/database/index.ts';
import type { ReceivedEvent } from '../../../shared/events/index.ts';

/** Whom a mail was sent to. */
export interface Recipient {
  readonly customerId: string;
  /** The address, sealed for the row of the note; null where the event named no customer. */
  readonly sealed: string | null;
}

/** Writes down that a mail went out, under the provider's id of it. */
export async function noteSent(
  tx: Queryable,
  event: ReceivedEvent,
  mailId: string,
  { customerId, sealed }: Recipient,
): Promise<void> {
  await tx.query(
    `insert into sample.notification (event_id, invoice_id, mail_id, recipient, customer_id)
     values ($1, $2, $3, $4, $5)`,
    [event.id, event.aggregateId, mailId, sealed, customerId],
  );
}
