import type { Queryable } from '../../database/index.ts';
import type { Delivery } from './delivery.ts';
import type { Outcome } from './outcome.ts';

export interface Settled {
  readonly delivery: Delivery;
  readonly outcome: Exclude<Outcome, { kind: 'outage' }>;
  /** The lease of its partition under which it was sent. */
  readonly token: string;
}

/**
 * Writes what became of many deliveries, in one statement.
 *
 * "Published" always wins: it is a fact, whoever holds the lease by now. A retry or a parking counts only while this relay still
 * holds the partition (its row is locked against a change of owner meanwhile) and nobody settled the delivery otherwise.
 */
export async function settle(db: Queryable, owner: string, entries: readonly Settled[]): Promise<void> {
  if (entries.length === 0) return;
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
  await db.query(
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
        and d.state <> 'published'
        and (s.state = 'published' or (d.state = 'pending' and d.partition in (select number from held)))`,
    [owner, position, state, delayMs, error, messageId, [...leases.keys()], [...leases.values()]],
  );
}
