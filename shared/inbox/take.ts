import type pg from 'pg';
import type { Queryable } from '../database/index.ts';
import type { Mode, ReceivedEvent } from '../events/index.ts';
import { decide, follows } from './order.ts';
import type { ConsumerIdentity } from './register.ts';
import { beginAgainWith, beginWith } from './taken-transaction.ts';
import type { ConsumerRules } from './work.ts';

/** Why `inbox.take` wants an event held. */
export type OutOfOrder = 'gap' | 'blocked' | 'late' | 'too-old' | 'replay';

/** What `inbox.take` has decided about one event. */
export interface Taken {
  readonly outcome: 'apply' | 'passed' | 'repeat' | 'held' | 'older' | 'not-accepted' | OutOfOrder;
  /** The sequence that would have been applied. Text of a 64-bit integer. */
  readonly expected: string;
  /** Seconds since the event's own time, by the database's clock. */
  readonly age: number;
  /** Other events of its aggregate are held. */
  readonly waiting: boolean;
}

/**
 * Opens a transaction and takes events for a consumer in it: dedupe rows and positions of all of them in one call, decided under the locks
 * of their positions. In the usual case all of them are next, which is cheap to find out; whatever is not is decided event by event.
 *
 * Another transaction that has taken one of them and is still open makes this one wait: for a repeat if that one commits, for
 * the event if it rolls back. So there is no state "in progress" that a crash could leave behind.
 */
export async function takeEvents(
  client: pg.PoolClient,
  rules: ConsumerRules,
  events: readonly ReceivedEvent[],
): Promise<readonly Taken[]> {
  const runs = runsOf(rules.consumer.mode, events);
  if (runs === null) return beginWith(client, takeAny(client, rules, events));
  const [{ seconds }] = (await beginWith(client, takeNext(client, rules, runs, events))) as [
    { seconds: number | null },
  ];
  if (seconds === null) return beginAgainWith(client, takeAny(client, rules, events));
  return events.map(({ time, sequence }) => ({
    outcome: 'apply',
    expected: sequence.toString(),
    age: seconds - Date.parse(time) / 1000,
    waiting: false,
  }));
}

/** Events of one aggregate that follow each other. */
interface Run {
  readonly aggregate: string;
  readonly subject: string;
  readonly first: bigint;
  last: bigint;
}

/** The runs that `inbox.take_next` is asked about; null: some event is not the next for certain. Mode `any` has no order. */
function runsOf(mode: Mode, events: readonly ReceivedEvent[]): readonly Run[] | null {
  if (events.some(({ replay }) => replay !== undefined)) return null;
  if (mode === 'any') return [];
  const runs = new Map<string, Run>();
  for (const { aggregateType: aggregate, aggregateId: subject, sequence } of events) {
    const key = `${aggregate}/${subject}`;
    const run = runs.get(key);
    if (run === undefined) runs.set(key, { aggregate, subject, first: sequence, last: sequence });
    else if (mode === 'latest' ? sequence > run.last : follows(run.last, sequence)) run.last = sequence;
    else return null;
  }
  return [...runs.values()];
}

/** Without parameters, like the next one: so it shares a round trip with the `begin` before it. */
function takeNext(
  client: pg.ClientBase,
  rules: ConsumerRules,
  runs: readonly Run[],
  events: readonly ReceivedEvent[],
): string {
  const aggregates = runs.map((run) => ({ ...run, first: run.first.toString(), last: run.last.toString() }));
  const places = events.map(({ id, time, aggregateType, aggregateId }) => ({
    id,
    time,
    aggregate: aggregateType,
    subject: aggregateId,
  }));
  return `select inbox.take_next(${literalsOf(client, rules, aggregates, places)}) as seconds`;
}

function takeAny(client: pg.ClientBase, rules: ConsumerRules, events: readonly ReceivedEvent[]): string {
  const places = events.map((event) => ({ ...placeOf(event), time: event.time, replay: event.replay }));
  return `select outcome, expected, age, waiting from inbox.take_any(${literalsOf(client, rules, places)}) order by place`;
}

function literalsOf(client: pg.ClientBase, { consumer }: ConsumerRules, ...lists: object[][]): string {
  const values = [consumer.name, consumer.mode, consumer.startingPoint, windowOf(consumer)];
  return [...values, ...lists.map((list) => JSON.stringify(list))].map((text) => client.escapeLiteral(text)).join(', ');
}

/** In hours: a day of PostgreSQL's is an hour longer or shorter where the session's time zone changes the clocks. */
function windowOf({ windowDays }: ConsumerIdentity): string {
  return `${windowDays * 24} hours`;
}

/** Where an event belongs, as the functions of the inbox are told. */
export function placeOf(event: ReceivedEvent): object {
  return {
    id: event.id,
    type: event.type,
    aggregate: event.aggregateType,
    subject: event.aggregateId,
    sequence: event.sequence.toString(),
  };
}

/**
 * Whether an event would be applied, by a plain read: what calls other systems must not run for a repeat, nor for an event that
 * will be held.
 */
export async function wouldApply(db: Queryable, rules: ConsumerRules, event: ReceivedEvent): Promise<boolean> {
  const { consumer } = rules;
  const { rows } = await db.query(
    `select exists (select from inbox.processed_event
                     where consumer = $1 and event_id = $2
                       and (s.void_before is null or processed_at >= s.void_before)) as processed,
            s.standing,
            exists (select from inbox.held_event
                     where consumer = $1 and not queued
                       and (event_id = $2 or (aggregate_type = $3 and aggregate_id = $4 and sequence < $5 and blocks
                                              and reason not in ('gap', 'blocked')))
                       and not (reason = 'replay' and event_id = $2)) as held,
            $6::timestamptz < clock_timestamp() - $7::interval
              or $6::timestamptz < (select before from inbox.pruned where consumer = $1) as too_old,
            (select sequence from inbox.stream_position
              where consumer = $1 and aggregate_type = $3 and aggregate_id = $4) as position
       from inbox.standing($1, $3, $4, $8) s`,
    [
      consumer.name,
      event.id,
      event.aggregateType,
      event.aggregateId,
      event.sequence.toString(),
      event.time,
      windowOf(consumer),
      event.replay ?? null,
    ],
  );
  const { processed, held, too_old, position, standing } = rows[0];
  if (processed || held || standing === 'hold' || standing === 'not-accepted') return false;
  if (too_old && standing === 'live') return false;
  const last = position === null ? null : BigInt(position);
  return decide(last, event.sequence, consumer.mode, consumer.startingPoint).kind === 'apply';
}
