import type pg from 'pg';
import type { Queryable } from '../../shared/database/index.ts';

/** A delivery as a test reads it. */
export interface DeliveryRow {
  readonly position: string;
  /** `aggregate#sequence`; a tombstone's has a dagger behind it. */
  readonly place: string;
  readonly state: string;
  readonly attempts: number;
  readonly run: number;
  readonly last_error: string | null;
  readonly xid: string;
}

/** All deliveries to a destination, or to any, by aggregate and sequence. */
export async function deliveriesOf(db: Queryable, destination?: string): Promise<DeliveryRow[]> {
  const { rows } = await db.query(
    `select d.position, d.state::text, d.attempts, d.run, d.last_error, d.xid::text,
            e.aggregate_id || '#' || (d.sequence & 1099511627775) || case when e.type = 'outbox.skipped' then '†' else '' end as place
       from outbox.delivery d
       join outbox.event e on e.id = d.event_id
       join outbox.destination g on g.number = d.destination
      where g.name = coalesce($1, g.name)
      order by e.aggregate_id, d.sequence, d.position`,
    [destination ?? null],
  );
  return rows;
}

/** `place` → `state`. */
export async function statesOf(db: Queryable, destination?: string): Promise<Record<string, string>> {
  return Object.fromEntries((await deliveriesOf(db, destination)).map(({ place, state }) => [place, state]));
}

/** Puts deliveries into a state, as a relay would have left them; a parked one as after its twelfth attempt. */
export async function putInto(owner: Queryable, state: string, ...places: readonly string[]): Promise<void> {
  await owner.query(
    `update outbox.delivery d
        set state = $1::outbox.delivery_state,
            attempts = case when $1 = 'parked' then 12 else d.attempts end,
            last_error = case when $1 = 'parked' then 'Odd: as the test wants it' else d.last_error end
       from outbox.event e
      where e.id = d.event_id and e.aggregate_id || '#' || d.sequence = any ($2)`,
    [state, places],
  );
}

/** The position of a delivery. */
export async function positionOf(db: Queryable, place: string, destination?: string): Promise<string> {
  const found = (await deliveriesOf(db, destination)).find((row) => row.place === place);
  if (found === undefined) throw new Error(`no delivery ${place}`);
  return found.position;
}

/** Resolves when a server process waits for a lock that `holder` has. */
export async function waitsFor(db: Queryable, holder: pg.Client): Promise<void> {
  const { processID } = holder as unknown as { processID: number };
  const deadline = Date.now() + 20_000;
  while (Date.now() < deadline) {
    const { rows } = await db.query(`select from pg_stat_activity where $1 = any (pg_blocking_pids(pid))`, [processID]);
    if (rows.length > 0) return;
  }
  throw new Error('nobody waits');
}
