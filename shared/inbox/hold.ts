import type { Queryable } from '../database/index.ts';
import type { ReceivedEvent } from '../events/index.ts';
import { messageUuid } from './event-bridge.ts';
import type { Failure } from './failure.ts';
import type { EventMessage, UnreadableMessage } from './message.ts';
import { type OutOfOrder, placeOf } from './take.ts';
import type { ConsumerRules } from './work.ts';

/** Why an event waits in `inbox.held_event`. */
export type HeldReason = OutOfOrder | 'failing' | 'malformed' | 'unknown-type' | 'unknown-version' | 'denied';

/** A message on its way into `inbox.held_event`. */
interface Holding {
  readonly place: object;
  readonly reason: HeldReason;
  readonly body: string;
  /** Codes and names, never a value. */
  readonly error: string | null;
  readonly blocks: boolean;
  /** The replay that it belongs to. */
  readonly replay?: number | undefined;
  /** It came as a message, and was not taken out of the table to be tried again. */
  readonly arrived?: boolean;
}

/** Whether later events of the aggregate wait behind one of this type that is held. */
function blocksOthers({ consumer, stepsOf }: ConsumerRules, type: string): boolean {
  return (stepsOf(type)?.whenFailing ?? (consumer.mode === 'strict' ? 'block' : 'skip')) === 'block';
}

export function outOfOrder(rules: ConsumerRules, { event, record }: EventMessage, reason: OutOfOrder): Holding {
  return {
    place: { ...placeOf(event), time: event.time },
    reason,
    body: record.body,
    error: null,
    blocks: barsOthers(rules, event.type, reason),
  };
}

/** Where order does not depend on every event, a live one that waits for the end of a replay must not keep that back. */
function barsOthers(rules: ConsumerRules, type: string, reason: OutOfOrder): boolean {
  if (reason === 'too-old') return blocksOthers(rules, type);
  if (reason === 'replay') return rules.consumer.mode === 'strict';
  return reason !== 'late';
}

/**
 * An event of another source has no place among ours, and neither has a message that is no event; a time that PostgreSQL cannot hold
 * is left out.
 */
export function asItCame(rules: ConsumerRules, message: UnreadableMessage, arrived: boolean): Holding {
  const { event, record, reason, failure } = message;
  const body = record.body.toWellFormed().replaceAll('\u0000', '\uFFFD');
  if (event === undefined || event.source !== rules.catalogue.source) {
    const id = event?.id ?? messageUuid(record.messageId);
    return {
      place: { id, type: event?.type ?? '', aggregate: '', subject: '', sequence: '0' },
      reason,
      body,
      error: describe(failure),
      blocks: false,
      arrived,
    };
  }
  return {
    place: { ...placeOf(event), ...(failure.code.startsWith('22') ? {} : { time: event.time }) },
    reason,
    body,
    error: describe(failure),
    blocks: blocksOthers(rules, event.type),
    replay: event.replay,
    arrived,
  };
}

/**
 * Of an event that cannot be returned: it is tried again from there, and its failures go on being counted. Until it is known that it does not do,
 * nothing passes it where every event counts.
 */
export function toTryAgain(rules: ConsumerRules, { event, record }: EventMessage, failure: Failure): Holding {
  return {
    place: { ...placeOf(event), time: event.time },
    reason: 'failing',
    body: record.body,
    error: describe(failure),
    blocks: rules.consumer.mode === 'strict' || blocksOthers(rules, event.type),
  };
}

/**
 * Writes messages into `inbox.held_event`, in the open transaction. Tells of each whether it is held; false: it had been processed; null: it belongs to a
 * replay that the consumer takes no part in.
 */
export async function hold(
  tx: Queryable,
  { consumer }: ConsumerRules,
  held: readonly Holding[],
): Promise<(boolean | null)[]> {
  const { rows } = await tx.query('select held from inbox.hold($1, $2, $3) order by place', [
    consumer.name,
    consumer.mode,
    JSON.stringify(held.map(({ place, ...rest }) => ({ ...place, ...rest }))),
  ]);
  return rows.map((row) => row.held as boolean | null);
}

/** Counts a failure of the event's handler. `held`: it has failed as often as it may, and its message can be acknowledged. */
export async function countFailure(
  tx: Queryable,
  rules: ConsumerRules,
  event: ReceivedEvent,
  body: string,
  failure: Failure,
  attempts: number,
): Promise<{ readonly attempts: number; readonly held: boolean }> {
  const { rows } = await tx.query('select attempts, held from inbox.count_failure($1, $2, $3, $4, $5)', [
    rules.consumer.name,
    rules.consumer.mode,
    JSON.stringify({ ...placeOf(event), time: event.time, body, blocks: blocksOthers(rules, event.type) }),
    describe(failure),
    attempts,
  ]);
  return rows[0] as { attempts: number; held: boolean };
}

/** What the table says about a failure: as much as the log, without frames. */
function describe({ code, errorName, reason }: Failure): string {
  return [code, errorName, reason]
    .filter((part) => part !== undefined)
    .join(' ')
    .slice(0, 500);
}
