import type pg from 'pg';
import type { Row } from '../../shared/database/index.ts';
import type { Acceptance } from './acceptance.ts';
import type { Ledger } from './writers.ts';

/** Each of these must be 0. */
export interface Verdict {
  /** Committed events that their queue never took. */
  lost: number;
  /** Events in a queue that no committed transaction wrote. */
  ghosts: number;
  /** First occurrences that a queue took after a later event of their aggregate. */
  orderBreaks: number;
  effectsTwice: number;
  effectsMissing: number;
  /** Events that a consumer still holds when all has settled. */
  heldLeft: number;
  /** Effects of the strict consumer that came after a later one of their aggregate. */
  effectsOutOfOrder: number;
  /** Deliveries that were parked although no message was ever at fault. */
  parkedWithoutCause: number;
  /** Deliveries that are neither published nor parked at the end. */
  unsettled: number;
  /** The server confirmed the commit, and the events are not there. */
  commitsLost: number;
  /** The transaction or its savepoint was rolled back, and the events are there. */
  rollbacksKept: number;
}

export interface Judgement {
  readonly verdict: Verdict;
  /** Committed events and their deliveries, by the database. */
  readonly events: number;
  readonly deliveries: number;
  /** The first few failures, in words. */
  readonly examples: readonly string[];
}

/** Of each kind of failure. */
const EXAMPLES = 3;
const PAGE = 20_000;

/** Compares what the database says was committed with what the queues took, in their order, and with the effects. */
export async function judge(db: pg.Client, acceptance: Acceptance, ledger: Ledger): Promise<Judgement> {
  const verdict: Verdict = {
    lost: 0,
    ghosts: 0,
    orderBreaks: 0,
    effectsTwice: 0,
    effectsMissing: 0,
    heldLeft: 0,
    effectsOutOfOrder: 0,
    parkedWithoutCause: 0,
    unsettled: 0,
    commitsLost: 0,
    rollbacksKept: 0,
  };
  const examples: string[] = [];
  const failed: Failed = (what, text) => {
    verdict[what] += 1;
    if (verdict[what] <= EXAMPLES) examples.push(`${what}: ${text()}`);
  };

  const present = await judgeWriters(db, ledger, failed);
  const deliveries = await judgeQueues(db, acceptance, present, failed);
  await judgeEffects(db, verdict, examples);
  return { verdict, events: present.size, deliveries, examples };
}

type Failed = (what: keyof Verdict, text: () => string) => void;

/** The events that are there; held against what the writers were told. */
async function judgeWriters(db: pg.Client, ledger: Ledger, failed: Failed): Promise<Set<string>> {
  const present = new Set<string>();
  for await (const { id } of rows(db, 'select id from outbox.event')) {
    present.add(id);
    if (ledger.rolledBack.has(id)) failed('rollbacksKept', () => id);
  }
  for (const id of ledger.committed) if (!present.has(id)) failed('commitsLost', () => id);
  return present;
}

async function judgeQueues(
  db: pg.Client,
  acceptance: Acceptance,
  present: ReadonlySet<string>,
  failed: Failed,
): Promise<number> {
  let deliveries = 0;
  let chain = '';
  let last = { place: 0, sequence: '' };
  const all = rows(
    db,
    `select t.name, d.event_id, d.state, d.sequence, d.last_error, e.aggregate_id
       from outbox.delivery d
       join outbox.destination t on t.number = d.destination
       join outbox.event e on e.id = d.event_id
      order by d.destination, d.aggregate_key, d.sequence, d.position`,
  );
  for await (const { name, event_id, state, sequence, last_error, aggregate_id } of all) {
    deliveries += 1;
    const where = `${name} ${aggregate_id}#${sequence}`;
    if (state === 'parked') failed('parkedWithoutCause', () => `${where}: ${last_error}`);
    else if (state !== 'published') failed('unsettled', () => `${where} is ${state}`);
    if (chain !== `${name}/${aggregate_id}`) {
      chain = `${name}/${aggregate_id}`;
      last = { place: 0, sequence: '' };
    }
    const place = acceptance.first.get(name)?.get(event_id);
    if (place === undefined) {
      failed('lost', () => `${where}, ${state}`);
    } else if (place < last.place) {
      failed('orderBreaks', () => `${where} was taken as ${place}, before #${last.sequence} as ${last.place}`);
    } else {
      last = { place, sequence };
    }
  }
  for (const [name, places] of acceptance.first) {
    for (const id of places.keys()) if (!present.has(id)) failed('ghosts', () => `${name} ${id}`);
  }
  return deliveries;
}

async function judgeEffects(db: pg.Client, verdict: Verdict, examples: string[]): Promise<void> {
  const { rows: counted } = await db.query(
    `with effects as (select consumer, event_id, count(*) as times from effect group by consumer, event_id),
          due as (select t.name as consumer, d.event_id
                    from outbox.delivery d join outbox.destination t on t.number = d.destination)
     select (select coalesce(sum(times - 1), 0) from effects)::integer as twice,
            (select count(*) from inbox.held_event where not queued)::integer as held,
            (select count(*) from due where not exists (
               select from effects f where f.consumer = due.consumer and f.event_id = due.event_id))::integer as missing,
            (select count(*) from (
               select sequence < max(sequence) over (partition by aggregate_id order by place) as late
                 from effect where consumer = 'ledger') o where late)::integer as out_of_order`,
  );
  const { twice, missing, held, out_of_order } = counted[0];
  verdict.effectsTwice = twice;
  verdict.effectsMissing = missing;
  verdict.heldLeft = held;
  verdict.effectsOutOfOrder = out_of_order;
  if (missing > 0) {
    const { rows: some } = await db.query(
      `select t.name, e.aggregate_id, e.sequence
         from outbox.delivery d
         join outbox.destination t on t.number = d.destination
         join outbox.event e on e.id = d.event_id
        where not exists (select from effect f where f.consumer = t.name and f.event_id = d.event_id)
        order by d.position limit 3`,
    );
    for (const row of some) examples.push(`effectsMissing: ${row.name} ${row.aggregate_id}#${row.sequence}`);
  }
}

/** Rows page by page: a run may have millions. */
async function* rows(db: pg.Client, sql: string): AsyncGenerator<Row> {
  await db.query(`begin; declare page no scroll cursor for ${sql}`);
  try {
    for (;;) {
      const { rows: page } = await db.query(`fetch ${PAGE} from page`);
      if (page.length === 0) return;
      yield* page;
    }
  } finally {
    await db.query('commit');
  }
}
