import type { Queryable } from '../../database/index.ts';
import type { Found } from './delivery.ts';
import type { Outcome } from './outcome.ts';

export interface Settled {
  readonly delivery: Found;
  readonly outcome: Exclude<Outcome, { kind: 'outage' }>;
  /** The lease of its partition under which it was sent. */
  readonly token: string;
}

/** What a settlement found otherwise than this relay had taken it for. Rare: another relay was at work meanwhile. */
export interface Surprises {
  /** Retries and parkings that were not written. */
  readonly unwritten: readonly Settled[];
  /** Published, though another relay had parked or set it aside: its followers may be blocked behind nothing. */
  readonly revived: readonly Settled[];
}

/**
 * Writes what became of many deliveries, in one statement.
 *
 * "Published" always wins: it is a fact, whoever holds the lease by now. A retry or a parking counts only while this relay still
 * holds the partition (its row is locked against a change of owner meanwhile) and nobody settled the delivery otherwise.
 */
export async function settle(db: Queryable, owner: string, entries: readonly Settled[]): Promise<Surprises> {
  if (entries.length === 0) return { unwritten: [], revived: [] };
  const position: string[] = [];
  const state: string[] = [];
  const delayMs: (number | null)[] = [];
  const error: (string | null)[] = [];
  const messageId: (string | null)[] = [];
  const leases = new Map<number, string>();
  for (const { delivery, outcome, token } of entries) {
    position.push(delivery.position);
    state.push(outcome.kind === 'retry' ? 'pending' : outcome.kind);
    delayMs.push(outcome.kind === 'retry' ? outcome.delayMs : null);
    error.push(outcome.kind === 'published' ? null : outcome.error);
    messageId.push(outcome.kind === 'published' ? outcome.messageId : null);
    if (outcome.kind !== 'published') leases.set(delivery.partition, token);
  }
  const { rows } = await db.query(
    `with held as (
       select p.number
         from unnest($7::smallint[], $8::bigint[]) as l (number, token)
         join outbox.partition p on p.number = l.number
        where p.lease_owner = $1 and p.lease_token = l.token and p.lease_expires_at > clock_timestamp()
        order by p.number
          for share of p
     )
     update outbox.delivery d
        set state = s.state::outbox.delivery_state,
            attempts = d.attempts + case when s.state = 'published' then 0 else 1 end,
            due_at = case when s.delay_ms is null then d.due_at
                          else clock_timestamp() + s.delay_ms * interval '1 millisecond' end,
            published_at = case when s.state = 'published' then clock_timestamp() end,
            message_id = s.message_id,
            last_error = coalesce(s.error, d.last_error)
       from unnest($2::bigint[], $3::text[], $4::float8[], $5::text[], $6::text[])
              as s (position, state, delay_ms, error, message_id)
      where d.position = s.position
        and d.state = 'pending'
        and (s.state = 'published' or d.partition in (select number from held))
      returning d.position`,
    [owner, position, state, delayMs, error, messageId, [...leases.keys()], [...leases.values()]],
  );
  if (rows.length === entries.length) return { unwritten: [], revived: [] };
  const written = new Set(rows.map((row) => row.position));
  const others = entries.filter(({ delivery }) => !written.has(delivery.position));
  return {
    unwritten: others.filter(({ outcome }) => outcome.kind !== 'published'),
    revived: await revive(db, others),
  };
}

/** Another statement, and so a younger snapshot: it sees whatever the first one had to wait for. */
async function revive(db: Queryable, others: readonly Settled[]): Promise<Settled[]> {
  const position: string[] = [];
  const messageId: string[] = [];
  for (const { delivery, outcome } of others) {
    if (outcome.kind !== 'published') continue;
    position.push(delivery.position);
    messageId.push(outcome.messageId);
  }
  if (position.length === 0) return [];
  const { rows } = await db.query(
    `update outbox.delivery d
        set state = 'published', published_at = clock_timestamp(), message_id = s.message_id
       from unnest($1::bigint[], $2::text[]) as s (position, message_id)
      where d.position = s.position and d.state <> 'published'
      returning d.position`,
    [position, messageId],
  );
  const revived = new Set(rows.map((row) => row.position));
  return others.filter(({ delivery }) => revived.has(delivery.position));
}
