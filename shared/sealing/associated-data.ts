import { SealingError } from './errors.ts';
import type { KeyName } from './sealed-text.ts';

/** The event that a value stands in. */
export interface EventPlace {
  readonly in: 'event';
  readonly eventType: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  /** A UUID; upper and lower case mean the same. */
  readonly eventId: string;
}

/** A value's one place in an event. */
export interface EventContext extends EventPlace {
  /** JSON Pointer to the value in the data, as the event was written. */
  readonly pointer: string;
}

/** A value's one place in a table, a read model or any other store of rows. */
export interface RowContext {
  readonly in: 'row';
  /** Which database or store, such as `invoices`: equal tables of two services must differ. */
  readonly store: string;
  readonly table: string;
  /** The row's primary key as text. UUIDs mean the same in upper and lower case. */
  readonly primaryKey: string;
  readonly column: string;
}

/** Where a sealed value belongs. It opens nowhere else. */
export type SealingContext = EventContext | RowContext;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The bytes that are authenticated with a value: a label and fields, each as u32be length ‖ UTF-8. The lengths keep
 * "ab" + "c" and "a" + "bc" apart, the labels the two contexts.
 *
 * @throws SealingError (`SEALING_MALFORMED`) for text that has no UTF-8, or an event id that is no UUID.
 */
export function associatedData({ class: className, keyId, version }: KeyName, context: SealingContext): Buffer {
  if (context.in === 'row') {
    return lengthPrefixed([
      'sealed-outbox.row.1',
      className,
      keyId,
      String(version),
      context.store,
      context.table,
      lowerCaseUuid(context.primaryKey),
      context.column,
    ]);
  }
  if (!UUID.test(context.eventId)) throw malformed('the id of the event is not a UUID');
  return lengthPrefixed([
    'sealed-outbox.event.1',
    className,
    keyId,
    String(version),
    context.eventType,
    context.aggregateType,
    lowerCaseUuid(context.aggregateId),
    context.eventId.toLowerCase(),
    context.pointer,
  ]);
}

/** PostgreSQL gives a uuid back in lower case, however it was written. */
export function lowerCaseUuid(text: string): string {
  return UUID.test(text) ? text.toLowerCase() : text;
}

export function lengthPrefixed(fields: readonly string[]): Buffer {
  let most = 0;
  for (const field of fields) most += 4 + 3 * field.length;
  const result = Buffer.allocUnsafe(most);
  let at = 0;
  for (const field of fields) {
    // Buffer writes each half as U+FFFD: two contexts would share their bytes.
    if (!field.isWellFormed()) throw malformed('half a surrogate pair has no UTF-8');
    const length = result.write(field, at + 4);
    result.writeUInt32BE(length, at);
    at += 4 + length;
  }
  return result.subarray(0, at);
}

function malformed(reason: string): SealingError {
  return new SealingError('SEALING_MALFORMED', `The place of a sealed value is not sound: ${reason}.`);
}
