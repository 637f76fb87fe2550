import type { Queryable } from '../database/index.ts';
import { type CallPlace, idempotencyKey } from './call-key.ts';
import type { CallState } from './external-call.ts';

/** What the database knows of a call when a delivery of its event comes by. */
export interface Reservation {
  /** `uncalled`, `unanswered`: the call is leased to this delivery. */
  readonly state: CallState;
  readonly key: string;
  /** The recorded answer as JSON, where it is `done`. */
  readonly response: string;
  /** Since the last call began. Milliseconds. */
  readonly calledMsAgo: number;
}

/**
 * Reserves the call for this delivery, if nobody else is at it. One short transaction, committed before anything is called: after a
 * crash whoever comes next sees that a call may have happened.
 *
 * A lease and no lock: a row or advisory lock would need its connection for as long as the provider takes.
 *
 * @param token of the lease, new for each delivery
 */
export async function reserveCall(
  tx: Queryable,
  place: CallPlace,
  token: string,
  leaseMs: number,
): Promise<Reservation> {
  const { consumer, eventId, name } = place;
  const inserted = await tx.query(
    `insert into inbox.external_call (consumer, event_id, name, idempotency_key, lease_token, lease_expires_at, called_at, calls)
     values ($1, $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 millisecond', clock_timestamp(), 1)
     on conflict (consumer, event_id, name) do nothing
     returning idempotency_key`,
    [consumer, eventId, name, idempotencyKey(place), token, leaseMs],
  );
  const fresh = inserted.rows[0] as { idempotency_key: string } | undefined;
  if (fresh !== undefined) return { state: 'uncalled', key: fresh.idempotency_key, response: '', calledMsAgo: 0 };

  const { rows } = await tx.query(
    `select idempotency_key as key, coalesce(response, 'null') as response,
            case when state <> 'reserved' then state
                 when lease_expires_at > clock_timestamp() then 'leased'
                 when called_at is null then 'uncalled'
                 else 'unanswered' end as state,
            coalesce(extract(epoch from clock_timestamp() - called_at) * 1000, 0)::float8 as "calledMsAgo"
       from inbox.external_call
      where consumer = $1 and event_id = $2 and name = $3
        for update`,
    [consumer, eventId, name],
  );
  // Somebody may have deleted it between the two statements: then the next delivery finds it gone.
  const known = (rows[0] as Reservation | undefined) ?? { state: 'leased', key: '', response: '', calledMsAgo: 0 };
  if (known.state !== 'uncalled' && known.state !== 'unanswered') return known;
  await tx.query(
    `update inbox.external_call
        set lease_token = $4, lease_expires_at = clock_timestamp() + $5 * interval '1 millisecond', updated_at = clock_timestamp(),
            called_at = coalesce(called_at, clock_timestamp()), calls = calls + (called_at is null)::integer
      where consumer = $1 and event_id = $2 and name = $3`,
    [consumer, eventId, name, token, leaseMs],
  );
  return known;
}

/** Notes that an unanswered call is made once more. False: the lease is somebody else's by now. */
export async function noteRepeatedCall(tx: Queryable, place: CallPlace, token: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update inbox.external_call set called_at = clock_timestamp(), calls = calls + 1, updated_at = clock_timestamp()
      where consumer = $1 and event_id = $2 and name = $3 and lease_token = $4 and lease_expires_at > clock_timestamp()`,
    [place.consumer, place.eventId, place.name, token],
  );
  return rowCount === 1;
}

/**
 * Records the answer, whoever has the lease by now: it is true all the same. The first recorded answer stays.
 *
 * @returns the answer that is recorded, as JSON
 */
export async function recordAnswer(tx: Queryable, place: CallPlace, response: string): Promise<string> {
  const { rows } = await tx.query(
    `insert into inbox.external_call as c (consumer, event_id, name, idempotency_key, state, response)
     values ($1, $2, $3, $4, 'done', $5)
     on conflict (consumer, event_id, name) do update
       set state = 'done', response = case when c.state = 'done' then c.response else excluded.response end,
           held_reason = null, lease_token = null, lease_expires_at = null, updated_at = clock_timestamp()
     returning response`,
    [place.consumer, place.eventId, place.name, idempotencyKey(place), response],
  );
  return (rows[0] as { response: string | null }).response ?? 'null';
}

/** What a delivery that ends without an answer leaves behind, if the lease is still its own. */
export type Unfinished =
  /** It may have happened. */
  | { readonly kind: 'unanswered' }
  /** The provider has said that it did nothing. */
  | { readonly kind: 'uncalled' }
  /** `reason` is a code. */
  | { readonly kind: 'held'; readonly reason: string };

/** Gives the lease back, so that the next delivery need not wait for its end. */
export async function leaveCall(tx: Queryable, place: CallPlace, token: string, left: Unfinished): Promise<void> {
  await tx.query(
    `update inbox.external_call
        set lease_token = null, lease_expires_at = null, updated_at = clock_timestamp(),
            called_at = case when $5 = 'uncalled' then null else called_at end,
            state = case when $5 = 'held' then 'held' else state end,
            held_reason = $6
      where consumer = $1 and event_id = $2 and name = $3 and lease_token = $4 and state = 'reserved'`,
    [place.consumer, place.eventId, place.name, token, left.kind, left.kind === 'held' ? left.reason : null],
  );
}
