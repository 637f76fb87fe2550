import { v7 } from 'uuid';
import type { Result } from '../database/index.ts';
import type { Catalogue, CompiledCatalogue, EventData, EventMetadata, EventType } from '../events/index.ts';
import type { Keyring, SealingKeys, Subject } from '../sealing/index.ts';
import { activeTraceparent, inSpan } from '../telemetry/index.ts';
import { type AnyEvent, appendRow, traced } from './append.ts';
import { type Cause, causedBy } from './cause.ts';
import { appendErrorOf, EventMalformedError } from './errors.ts';
import { prepareKeys } from './prepare.ts';
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

export interface AppendOptions {
  /**
   * The event that led to these: each carries its id as `causationid`, its `correlationid` (or its id, where it began the chain) and its
   * `traceparent`. What an event's own `metadata` says goes before.
   */
  readonly causedBy?: Cause;
}

/** Appends events. */
export interface Writer<C extends Catalogue> {
  /**
   * Writes events inside the caller's transaction, in one statement: they are published if it commits, and only then.
   * Answers in the order of `events`; an empty array is no error and no statement.
   *
   * In a consumer's handler, with its `tx` and `{ causedBy: event }`, dedupe row, effect and the events that follow are one transaction.
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
   * @throws KeysNotPreparedError `KEYS_NOT_PREPARED`: the type has marks of personal data, and no keys were prepared for that person;
   * SealingRefusedError `SEALING_REFUSED`: a value that cannot be sealed; EventNotSealedError `EVENT_NOT_SEALED`: marks that only the
   * installed catalogue has.
   * @throws CommitNotDurableError `COMMIT_NOT_DURABLE`: `synchronous_commit` is off.
   * @throws the driver's errors as they are.
   */
  append(tx: Transaction, events: readonly OutboxEvent<C>[], options?: AppendOptions): Promise<AppendedEvent[]>;
}

export interface PrepareOptions<C extends Catalogue> {
  /** The persons whose data the events hold. */
  readonly subjects: readonly Subject[];
  /** The types that will be appended; by it a person gets no keys of classes that only other types use. Default: all of the catalogue. */
  readonly types?: readonly EventType<C>[];
}

export interface Outbox<C extends Catalogue> extends Writer<C> {
  /**
   * Loads the keys of persons before the transaction, and creates those that are missing; what it answers then seals by computing alone. Never
   * call it inside a transaction: with a pool of one connection it would wait for the connection that the transaction holds.
   *
   * Good for one unit of work: what it loads can be used for a minute at least and for five at most.
   *
   * ```ts
   * const writer = await outbox.prepare({ subjects: [{ kind: 'customer', id }] });
   * await transaction(pool, async (tx) => {
   *   await tx.query('insert into sample.invoice …');
   *   await writer.append(tx, [{ type: 'invoice.issued', aggregate: { type: 'invoice', id }, data }]);
   * });
   * ```
   *
   * @throws KeysNotPreparedError `KEYS_NOT_PREPARED`: the catalogue has marks, and the outbox was made without a keyring; SealingRefusedError
   * `SEALING_REFUSED`: a person without a sound kind and id; SealingError with any code of those that loading has (`Keyring.keysToSeal`).
   */
  prepare(options: PrepareOptions<C>): Promise<Writer<C>>;
}

export interface OutboxOptions<C extends Catalogue> {
  readonly catalogue: CompiledCatalogue<C>;
  /** Needed where the catalogue marks personal data. */
  readonly keyring?: Keyring;
}

/** Makes the writing side of the outbox. Holds no state and no connection. */
export function createOutbox<C extends Catalogue>({ catalogue, keyring }: OutboxOptions<C>): Outbox<C> {
  return {
    ...createWriter(catalogue),
    prepare: async ({ subjects, types }) =>
      createWriter(catalogue, await prepareKeys(catalogue, keyring, subjects, types)),
  };
}

function createWriter<C extends Catalogue>(catalogue: CompiledCatalogue<C>, keys?: SealingKeys): Writer<C> {
  return {
    async append(tx, events, options = {}) {
      checkTransaction(tx);
      if (!Array.isArray(events)) {
        throw new EventMalformedError('events', 'events must be an array. Nothing was appended.');
      }
      if (events.length === 0) return [];
      return inSpan('append outbox', appendSpan(events), async (span) => {
        // The span stands below the one that handles the cause: it goes before the trace that the cause came with.
        const cause = options.causedBy && {
          ...options.causedBy,
          traceparent: span.traceparent ?? options.causedBy.traceparent,
        };
        const rows = events.map((event: AnyEvent, index) =>
          traced(
            appendRow(catalogue, cause === undefined ? event : causedBy(cause, event), index, v7(), keys),
            span.traceparent,
          ),
        );
        const result = await runAppend(tx, JSON.stringify(rows));
        const sequences = new Map(result.rows.map((row) => [row.id, row.sequence]));
        return rows.map(({ id }) => ({ id, sequence: BigInt(sequences.get(id)) }));
      });
    },
  };
}

/** Continues the active span, or else the trace that the events themselves name. */
function appendSpan(events: readonly AnyEvent[]): Parameters<typeof inSpan>[1] {
  return {
    kind: 'producer',
    attributes: {
      'messaging.system': 'sealed_outbox',
      'messaging.operation.name': 'append',
      'messaging.operation.type': 'create',
      'messaging.destination.name': 'outbox',
      'messaging.batch.message_count': events.length,
    },
    parent: activeTraceparent() ?? events.find((event) => event?.metadata?.traceparent)?.metadata?.traceparent,
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
