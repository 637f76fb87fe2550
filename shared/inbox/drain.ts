import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { SQSRecord } from 'aws-lambda';
import type { OpeningKeys } from '../sealing/index.ts';
import { type Applied, callBefore, keep, ownTransaction, runHandler } from './apply.ts';
import { countAlone, eachOf } from './batch.ts';
import { classifyFailure, type Failure } from './failure.ts';
import { handlerCalls } from './handler-calls.ts';
import { type EventMessage, type Message, messageOf, readRecord } from './message.ts';
import { loadKeys } from './open-event.ts';
import { RESTED, RUN, restMs } from './rest.ts';
import { beginWith, takenTransaction } from './taken-transaction.ts';
import type { Aggregate, Work } from './work.ts';

/** Aggregates that one look at the table finds. */
const PAGE = 100;

/** A held event as `inbox.take_held` and `inbox.ready_events` give it. */
interface Ready {
  readonly event_id: string;
  readonly body: string;
  readonly verdict: 'apply' | 'skip' | 'older' | 'late' | 'repeat';
  readonly age: number;
}

/** A held event that could not be applied. */
class HeldEventError extends Error {
  readonly held: Message;

  constructor(held: Message, cause: unknown) {
    super('a held event failed', { cause });
    this.held = held;
  }
}

/** How aggregates are gone through. */
export interface DrainOptions {
  /** Whether a transaction may begin in so many milliseconds; asked before each, and before a rest. Default: for as long as the invocation has time. */
  readonly mayGoOn?: (inMs: number) => boolean;
  /** Whether to wait for whoever else is at an aggregate, or to leave it to them. Default: leave it. */
  readonly waits?: boolean;
}

/**
 * Applies what is held of these aggregates, each in order and several side by side. What stays is found by the next invocation.
 *
 * @returns how many events were taken out
 */
export async function drain(
  work: Work,
  aggregates: Iterable<Aggregate>,
  { mayGoOn = () => true, waits = false }: DrainOptions = {},
): Promise<number> {
  let drained = 0;
  await eachOf(aggregates, work.concurrency, async (aggregate) => {
    const mayStart = (inMs: number): boolean => mayGoOn(inMs) && work.invocation.mayStart(inMs);
    const taken = await drainAggregate(work, aggregate, waits, mayStart);
    drained += taken;
  });
  return drained;
}

/**
 * Aggregates of which something that is held may be applied now: all of them, in their order, found a page at a time while they are
 * worked on.
 *
 * @param after where to begin; the start when it is null
 */
export async function drainable(work: Work, after: Aggregate | null): Promise<Aggregate[]> {
  const { name, mode, startingPoint } = work.consumer;
  const { rows } = await ownTransaction(work, (tx) =>
    tx.query('select aggregate_type as type, aggregate_id as id from inbox.drainable($1, $2, $3, $4, $5, $6)', [
      name,
      mode,
      startingPoint,
      after?.type ?? null,
      after?.id ?? null,
      PAGE,
    ]),
  );
  return rows as Aggregate[];
}

/**
 * Has events tried again that were held because another deployment did not know their type or version, and this one does. Where a strict consumer has
 * passed one meanwhile, it is late, and waits for a person.
 */
export async function retryWhatIsKnownNow(work: Work): Promise<void> {
  await ownTransaction(work, (tx) =>
    tx.query(
      `update inbox.held_event set wanted = 'retry'
        where consumer = $1 and wanted is null and not queued and aggregate_type <> ''
          and reason in ('unknown-type', 'unknown-version') and last_error not like 'EVENT_VERSION_TOO_OLD%'
          and type || '/' || substring(body from '"dataschema"\\s*:\\s*"[^"]*/([0-9]+)"') = any ($2)`,
      [work.consumer.name, Object.keys(work.catalogue.validators)],
    ),
  );
}

async function drainAggregate(
  work: Work,
  aggregate: Aggregate,
  waits: boolean,
  mayGoOn: (inMs: number) => boolean,
): Promise<number> {
  let drained = 0;
  let most = work.callsBefore ? 1 : RUN;
  let stint = RESTED;
  for (let rest = 0; mayGoOn(rest); rest = restMs(stint)) {
    try {
      if (rest > 0) {
        await Promise.race([delay(rest), work.invocation.abandoned]);
        stint = RESTED;
      }
      const startedAt = work.monotonicMs();
      const taken = await Promise.race([drainRun(work, aggregate, most, waits), work.invocation.abandoned]);
      drained += taken;
      if (taken < most) break;
      stint = { events: stint.events + taken, tookMs: stint.tookMs + work.monotonicMs() - startedAt };
    } catch (error) {
      // Only one at a time tells whose fault it is, and lets those before it through.
      if (most > 1 && error instanceof HeldEventError) most = 1;
      else if (!(await staysHeld(work, error))) break;
    }
  }
  return drained;
}

/** Takes out the next held events of an aggregate and applies them in one transaction. */
async function drainRun(work: Work, aggregate: Aggregate, most: number, waits: boolean): Promise<number> {
  // What takes time or another system's word is done before the transaction, for what a plain read says is next.
  const next = work.callsBefore || work.keyring !== undefined ? await readyEvents(work, aggregate, most) : [];
  const keys = await loadKeys(
    work,
    next.map((row) => readRecord(work, recordOfHeld(row))),
  );
  const before = work.callsBefore ? await beforeOf(work, next[0], keys) : undefined;
  const client = await work.invocation.connect();
  const report: (() => void)[] = [];
  let last: Message | undefined;
  const takeHeld = `select event_id, body, verdict, age from inbox.take_held(${argumentsOf(client, work, aggregate)}, ${most}, ${waits})`;
  const taken = takenTransaction(
    client,
    (tx) => beginWith(tx, takeHeld),
    async (rows) => {
      const takenAt = work.monotonicMs();
      const messages = (rows as readonly Ready[]).map((row) => ({ row, message: readHeld(work, row, keys) }));
      const handled: EventMessage[] = [];
      for (const { row, message } of messages) {
        if (row.verdict !== 'apply') continue;
        last = message;
        if (message.kind === 'unreadable' || message.kind === 'unopened') throw new HeldEventError(message, undefined);
        if (message.kind !== 'event' || message.steps === undefined) continue;
        // It became another's turn between the plain read and the lock: its `before` has not run.
        if (message.steps.before !== undefined && before?.id !== row.event_id) {
          throw Object.assign(new Error('the next held event is another one now'), { code: '40001' });
        }
        handled.push(message);
      }
      await handleHeld(work, handled, client, before?.answer);
      const waited = (work.monotonicMs() - takenAt) / 1000;
      for (const { row, message } of messages) {
        const { event } = message;
        const applied: Applied = handled.includes(message as EventMessage)
          ? { kind: 'effect', ageSeconds: row.age + waited }
          : passedOver(row);
        if (event !== undefined) report.push(() => work.report.drained(event, applied));
      }
      return rows.length;
    },
  );
  try {
    await taken;
  } catch (error) {
    // What the commit refuses (a deferred constraint, a transaction that a handler has ended) names no event. Where one is taken at a time, it is that.
    if (last === undefined || classifyFailure(error).class !== 'handler') throw error;
    throw new HeldEventError(last, error);
  }
  for (const say of report) say();
  return taken;
}

/** @throws HeldEventError naming the first event of the call that failed: of several, only one at a time tells which */
async function handleHeld(
  work: Work,
  messages: readonly EventMessage[],
  client: pg.PoolClient,
  before: unknown,
): Promise<void> {
  for (const call of handlerCalls(messages)) {
    try {
      await runHandler(work, call, client, before);
    } catch (error) {
      throw new HeldEventError(call[0], error);
    }
  }
}

function passedOver({ verdict }: Ready): Applied {
  switch (verdict) {
    case 'older':
    case 'repeat':
      return { kind: verdict };
    case 'late':
      return { kind: 'held', reason: verdict };
    case 'skip':
    case 'apply':
      return { kind: 'ignored' };
  }
}

/** The held events of an aggregate whose turn it is. */
async function readyEvents(work: Work, aggregate: Aggregate, most: number): Promise<readonly Ready[]> {
  const client = await work.invocation.connect();
  try {
    const { rows } = await client.query(
      `select event_id, body, verdict from inbox.ready_events(${argumentsOf(client, work, aggregate)}, ${most})`,
    );
    return rows as Ready[];
  } finally {
    client.release();
  }
}

/** Runs the `before` step of the event whose turn it is, while no transaction is open. */
async function beforeOf(
  work: Work,
  next: Ready | undefined,
  keys: OpeningKeys,
): Promise<{ readonly id: string; readonly answer: unknown } | undefined> {
  if (next?.verdict !== 'apply') return undefined;
  const message = readHeld(work, next, keys);
  if (message.kind !== 'event' || message.steps?.before === undefined) return undefined;
  try {
    return { id: next.event_id, answer: await callBefore(work, message.steps, message.event) };
  } catch (error) {
    throw new HeldEventError(message, error);
  }
}

/** Writes down that a held event could not be applied. Whether the aggregate may have others to go on with. */
async function staysHeld(work: Work, error: unknown): Promise<boolean> {
  const failure: Failure = classifyFailure(error instanceof HeldEventError ? error.cause : error);
  try {
    if (error instanceof HeldEventError) {
      const { held } = error;
      if (held.kind === 'unreadable') {
        work.report.stays(held.event, held.failure);
        await Promise.race([keep(work, held, false), work.invocation.abandoned]);
        return true;
      }
      if (held.kind === 'unopened') {
        work.report.stays(held.event, held.failure);
        return false;
      }
      work.report.stays(held.event, failure);
      if (failure.class !== 'handler' || held.kind !== 'event') return false;
      await Promise.race([countAlone(work, held, failure), work.invocation.abandoned]);
      return true;
    }
    work.report.notWritten(failure);
  } catch (second) {
    work.report.notWritten(classifyFailure(second));
  }
  return false;
}

function argumentsOf(client: pg.ClientBase, { consumer }: Work, aggregate: Aggregate): string {
  return [consumer.name, consumer.mode, consumer.startingPoint, aggregate.type, aggregate.id]
    .map((text) => client.escapeLiteral(text))
    .join(', ');
}

function readHeld(work: Work, row: Ready, keys: OpeningKeys): Message {
  const record = recordOfHeld(row);
  return messageOf(work, record, readRecord(work, record), keys);
}

/** A held event as the message that it came in. */
function recordOfHeld({ event_id, body }: Ready): SQSRecord {
  return {
    messageId: event_id,
    receiptHandle: '',
    body,
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: '',
      SenderId: '',
      ApproximateFirstReceiveTimestamp: '',
    },
    messageAttributes: {},
    md5OfBody: '',
    eventSource: 'inbox.held_event',
    eventSourceARN: '',
    awsRegion: '',
  };
}
