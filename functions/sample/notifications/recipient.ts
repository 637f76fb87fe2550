import type { ReceivedEvent } from '../../../shared/events/index.ts';
import type { Keyring, OpeningKeys } from '../../../shared/sealing/index.ts';
import { customerSubject } from '../catalogue/classes.ts';
import { moveSealed, rowContext, sealedRowNames, sealRow, type SealedTable } from '../sealed-rows.ts';
import type { AcceptedMail } from './mail-client.ts';

/** Where the address stands that a mail went to: first in the recorded answer, then in the note of the mail. Both by the event's id. */
const RECORDED = {
  store: 'notifications',
  table: 'inbox.external_call',
  columns: { to: 'contact' },
} as const satisfies SealedTable;
const NOTED = {
  store: 'notifications',
  table: 'sample.notification',
  columns: { recipient: 'contact' },
} as const satisfies SealedTable;

/** What is recorded of the provider's answer. */
export interface RecordedMail {
  readonly id: string;
  /** Sealed; null where the event named no customer, and not there in what older versions recorded. */
  readonly to?: string | null;
}

/** Seals the address of an answer. Loads the key before the call: afterwards nothing may go wrong that can be avoided. */
export async function recorder(
  keyring: Keyring,
  { id }: ReceivedEvent,
  customerId: string,
): Promise<(answer: AcceptedMail) => RecordedMail> {
  const subject = customerSubject(customerId);
  const keys = await keyring.keysToSeal([{ class: 'contact', subject }]);
  return (answer) => ({ id: answer.id, to: sealRow(RECORDED, id, keys, subject, { to: answer.to }).to });
}

/** A mail that was sent, with the keys to move its address. */
export interface SentMail extends RecordedMail {
  readonly to: string | null;
  readonly keys: OpeningKeys;
}

/** Loads the key of a recorded address: an earlier delivery may have sealed it with another version. */
export async function withKeys(keyring: Keyring, { id, to = null }: RecordedMail): Promise<SentMail> {
  return { id, to, keys: await keyring.keysToOpen(sealedRowNames({ to })) };
}

/** The address, sealed for the note of the mail. Only computes. */
export function recipientFor({ id }: ReceivedEvent, { to, keys }: SentMail): string | null {
  if (to === null) return null;
  return moveSealed(to, keys, rowContext(RECORDED, id, 'to'), rowContext(NOTED, id, 'recipient'));
}
