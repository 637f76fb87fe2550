import { v7 } from 'uuid';
import type { Result } from '../database/index.ts';
import type { Catalogue, CompiledCatalogue, EventData, EventMetadata, EventType } from '../events/index.ts';
import { type AnyEvent, appendRow } from './append.ts';
import { appendErrorOf, EventMalformedError } from './errors.ts';
import { checkTransaction, type Transaction } from './transaction-check.ts';

/** An event of catalogue `C`: the type decides what the aggregate and the data are. */
export type OutboxEvent<C extends Catalogue> = {
  [Type in EventType<C>]: {
    readonly type: Type;
    readonly aggregate: {
      readonly type: C['events'][Type]['aggregate'];
      /** 1–200 characters. */
      readonly id: string;
    };
    /** As the newest version of the type's schema describes it. */
    readonly data: EventData<C, Type>;
    /** At most 1,024 bytes together. */
    readonly metadata?: EventMetadata;
  };
}[EventType<C>];

/** What became of an appended event. */
export interface AppendedEvent {
  /** UUID v7: the consumers' key against repeats. */
  readonly id: string;
  /** Its place in the aggregate's history, without gaps once committed. */
  readonly sequence: bigint;
}

export interface Outbox<C extends Catalogue> {
  /**
   * Writes events inside the caller's transaction, in one statement: they are published if it commits, and only then.
   * Answers in the order of `events`; an empty array is no error and no statement.
   *
   * The aggregates named stay locked until the transaction ends, so keep it short. Two appends in one transaction can
   * deadlock with another one's (40P01), as any two updates can: run the transaction again.
   *
   * ```ts
   * await transaction(pool, async (tx) => {
   *   await tx.query('insert into sample.invoice …');
   *   await outbox.append(tx, [{ type: 'invoice.issued', aggregate: { type: 'invoice', id }, data }]);
   * });
   * ```
   *
   * @throws NotATransactionError `NOT_A_TRANSACTION`: a pool, or a connection outside a transaction.
   * @throws EventMalformedError `EVENT_MALFORMED`, EventTypeUnknownError `EVENT_TYPE_UNKNOWN`,
   * EventDataInvalidError `EVENT_DATA_INVALID`, EventTooLargeError `EVENT_TOO_LARGE`: nothing was written; mostly
   * before the database was asked, so the transaction may go on. After an error from the database itself (its `cause`)
   * it can only be rolled back, or back to a savepoint.
   * @throws KeysNotPreparedError `KEYS_NOT_PREPARED`: the type has marks of personal data, and no keys were prepared; EventNotSealedError
   * `EVENT_NOT_SEALED`: marks that only the installed catalogue has.
   * @throws CommitNotDurableError `COMMIT_NOT_DURABLE`: `synchronous_commit` is off.
   * @throws the driver's errors as they are.
   */
  append(tx: Transaction, events: readonly OutboxEvent<C>[]): Promise<AppendedEvent[]>;
}

export interface OutboxOptions<C extends Catalogue> {
  readonly catalogue: CompiledCatalogue<C>;
}

/** Makes the writing side of the outbox. Holds no state and no connection. */
export function createOutbox<C extends Catalogue>({ catalogue }: OutboxOptions<C>): Outbox<C> {
  return {
    async append(tx, events) {
      checkTransaction(tx);
      if (!Array.isArray(events)) {
        throw new EventMalformedError('events', 'events must be an array. Nothing was appended.');
      }
      if (events.length === 0) return [];
      const rows = events.map((event: AnyEvent, index) => appendRow(catalogue, event, index, v7()));
      const result = await runAppend(tx, JSON.stringify(rows));
      const sequences = new Map(result.rows.map((row) => [row.id, row.sequence]));
      return rows.map(({ id }) => ({ id, sequence: BigInt(sequences.get(id)) }));
    },
  };
}

async function runAppend(tx: Transaction, events: string): Promise<Result> {
  try {
    // As text: a driver may be set to read bigint as a number, and lose digits.
    return await tx.query('select id::text, sequence::text from outbox.append($1::jsonb)', [events]);
  } catch (error) {
    throw appendErrorOf(error) ?? error;
  }
}
