import { setTimeout as delay } from 'node:timers/promises';
import type { Queryable } from '../../database/index.ts';
import { SealedOutboxError } from '../../errors/index.ts';
import { call } from './call.ts';

/** Which events: those that fit all that is given. One thing at least must be. */
export interface ReplayScope {
  readonly aggregateType?: string;
  /** Only together with `aggregateType`. */
  readonly aggregateId?: string;
  readonly types?: readonly string[];
  /** 10,000 at most. */
  readonly eventIds?: readonly string[];
  /** By the event's own time: from this on. RFC 3339. */
  readonly from?: string;
  /** Up to this, excluded. */
  readonly to?: string;
}

export interface ReplayStart {
  /** Its name in the catalogue. */
  readonly destination: string;
  readonly scope: ReplayScope;
  /** Messages a second at most, of all relays together: 1 to 100,000; default 500. */
  readonly perSecond?: number;
  /** Waits for `returnArchived` before anything is sent. */
  readonly fromArchive?: boolean;
  /** Waits for `resumeReplay`: time to reset the consumers that shall apply it. */
  readonly paused?: boolean;
}

export interface ReplayCount {
  readonly events: number;
  readonly aggregates: number;
  /** Of their data. */
  readonly bytes: number;
  /** By the events' own time; null when there are none. */
  readonly oldest: Date | null;
  readonly newest: Date | null;
}

/** `loading` waits for archived events; `running` is planned first, then sent. */
export type ReplayState = 'loading' | 'running' | 'paused' | 'done' | 'cancelled';

export interface Replay {
  readonly number: number;
  readonly destination: string;
  readonly scope: ReplayScope;
  readonly perSecond: number;
  readonly state: ReplayState;
  /** Messages that it has, so far as it is planned. */
  readonly planned: number;
  /** Since when the plan is complete; before, nothing is sent. */
  readonly plannedAt: Date | null;
  /** Out: sent, or set aside by policy. */
  readonly sent: number;
  readonly waiting: number;
  /** They keep the replay open: redrive or skip them. */
  readonly parked: number;
  readonly actor: string;
  readonly reason: string;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
}

function scopeRow({ aggregateType, aggregateId, types, eventIds, from, to }: ReplayScope): string {
  return JSON.stringify({
    aggregate_type: aggregateType,
    aggregate_id: aggregateId,
    types,
    event_ids: eventIds,
    from,
    to,
  });
}

/**
 * A dry run: what a replay would send. Changes nothing. Events that have not been published live yet count too, although a replay leaves them to
 * come by themselves. Reads the whole event table. Role: `outbox_operator`; written to the audit.
 *
 * @throws OperationError: `OPERATION_ARGUMENT`, `DELIVERY_UNKNOWN` for a destination that is not installed, `OPERATION_FORBIDDEN`
 */
export async function countReplay(db: Queryable, destination: string, scope: ReplayScope): Promise<ReplayCount> {
  const [row] = await call(
    db,
    `select events::float8 as events, aggregates::float8 as aggregates, bytes::float8 as bytes, oldest, newest
       from outbox.count_replay($1, $2)`,
    [destination, scopeRow(scope)],
  );
  return row;
}

/**
 * Starts to send events again that were sent before, to one destination. Their envelopes carry the number that is returned as `replay`; a consumer
 * applies them only when it accepts that number (`resetConsumer`), others acknowledge them. The relays do the work: live events go on beside it.
 * Replays to one destination go one after the other. Role: `outbox_operator`; written to the audit with `reason`.
 *
 * @throws OperationError: as `countReplay`, and those that every act may throw
 * @example await startReplay(db, { destination: 'ledger', scope: { aggregateType: 'invoice' } }, 'ledger was wrong, INC-7')
 */
export async function startReplay(db: Queryable, start: ReplayStart, reason: string): Promise<number> {
  const { destination, scope, perSecond = 500, fromArchive = false, paused = false } = start;
  const [row] = await call(db, 'select outbox.start_replay($1, $2, $3, $4, $5, $6) as number', [
    destination,
    scopeRow(scope),
    perSecond,
    reason,
    fromArchive,
    paused,
  ]);
  return row.number;
}

/** Nothing more is sent within about a second, what is in flight excepted. @throws OperationError `NOT_IN_STATE` unless it is running */
export async function pauseReplay(db: Queryable, number: number, reason: string): Promise<void> {
  await call(db, 'select outbox.pause_replay($1, $2)', [number, reason]);
}

/** Goes on where it stood. @throws OperationError `NOT_IN_STATE` unless it is paused */
export async function resumeReplay(db: Queryable, number: number, reason: string): Promise<void> {
  await call(db, 'select outbox.resume_replay($1, $2)', [number, reason]);
}

/** How long a cancellation waits for what relays are settling: longer than a statement of theirs may take. Milliseconds. */
const CLEAR_WAIT_MS = 25_000;
const CLEAR_LOOK_MS = 50;

/**
 * Ends a replay for good and sets aside what it has not sent, in small transactions. Calling it again finishes an interrupted one.
 *
 * @param options.waitMs how long to wait for messages that another transaction is at, such as a relay that settles them; default 25,000 ms
 * @returns how many unsent messages were removed
 * @throws OperationError `NOT_IN_STATE` when it is done; SealedOutboxError `REPLAY_NOT_CLEARED`: it is cancelled, and some messages stayed locked. What
 * stays keeps its event from being pruned: call it again.
 */
export async function cancelReplay(
  db: Queryable,
  number: number,
  reason: string,
  { waitMs = CLEAR_WAIT_MS }: { readonly waitMs?: number } = {},
): Promise<number> {
  await call(db, 'select outbox.cancel_replay($1, $2)', [number, reason]);
  let movedAt = performance.now();
  for (let total = 0; ;) {
    const [{ removed }] = await call(db, 'select outbox.clear_replay($1) as removed', [number]);
    total += removed;
    if (removed > 0) {
      movedAt = performance.now();
      continue;
    }
    // It passes over what is locked, so 0 may mean that others are at the rest.
    const [{ left }] = await call(db, 'select (waiting + parked)::float8 as left from outbox.list_replays($1)', [
      number,
    ]);
    if (left === 0) return total;
    if (performance.now() - movedAt >= waitMs) {
      throw new SealedOutboxError(
        'REPLAY_NOT_CLEARED',
        `replay ${number} is cancelled, and ${total} unsent messages were removed; ${left} ${left === 1 ? 'is' : 'are'} locked by others and stay${left === 1 ? 's' : ''}. ` +
          'Cancel it again; if it stays so, look for an open transaction in pg_stat_activity.',
      );
    }
    await delay(CLEAR_LOOK_MS);
  }
}

/** How replays stand, the newest first. Role: `outbox_operator`. */
export async function listReplays(
  db: Queryable,
  options: { readonly number?: number; readonly limit?: number } = {},
): Promise<Replay[]> {
  const rows = await call(
    db,
    `select number, destination_name as destination, scope, per_second as "perSecond", state, planned::float8 as planned,
            planned_at as "plannedAt", greatest(0, planned - waiting - parked)::float8 as sent, waiting::float8 as waiting,
            parked::float8 as parked, actor, reason, created_at as "createdAt", finished_at as "finishedAt"
       from outbox.list_replays($1, $2)`,
    [options.number ?? null, options.limit ?? 20],
  );
  return rows.map(({ scope, ...row }) => {
    const entries = {
      aggregateType: scope.aggregate_type,
      aggregateId: scope.aggregate_id,
      types: scope.types,
      eventIds: scope.event_ids,
      from: scope.from,
      to: scope.to,
    };
    return { ...row, scope: Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined)) };
  });
}
