import type pg from 'pg';
import type { Acceptance } from './acceptance.ts';
import { ORDERED } from './catalogue.ts';
import { HELD } from './held.ts';
import { type EffectsTruth, judgeCalls, judgeEffects, judgeReadModels } from './judge-effects.ts';
import { rows } from './paged-rows.ts';
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
  /** In mode latest the read model tells. */
  effectsMissing: number;
  /** Effects of consumers in order that came after a later one of their aggregate. */
  effectsOutOfOrder: number;
  /** Aggregates of which a read model is not what a fold of the event table gives. */
  readModelsWrong: number;
  /** Acts of the provider for one event, beyond the first. */
  callsTwice: number;
  /** Applied events without one, or with another one's answer. */
  callsMissing: number;
  callsWithoutEvent: number;
  /** When faults had ended nothing moved for 45 s, although something was still to be published, delivered or applied. */
  standstills: number;
  /** Held when nothing moved any more, although no handler always fails for it, and it waits behind no such event. */
  heldWithoutCause: number;
  /** Held when the operator was done. */
  heldAtTheEnd: number;
  /** Messages in a queue or a dead-letter queue at the end. */
  messagesLeft: number;
  replaysUnfinished: number;
  /** Sessions of relays, and messages of consumers, that failed with an error that no fault explains. */
  errorsWithoutCause: number;
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

export interface Truth extends EffectsTruth {
  /** What the queues took, in their order. */
  readonly acceptance: Acceptance;
  /** What the writers were told. */
  readonly ledger: Ledger;
  /** What was left when nothing moved any more although it was not done. */
  readonly stuck: readonly string[];
  /** Held when nothing moved any more, and why that is wrong. */
  readonly unexplained: readonly string[];
  readonly messagesLeft: number;
  readonly replaysUnfinished: number;
  /** What no fault explains, in words. */
  readonly errors: readonly string[];
}

/** Compares what the database says was committed with what the queues took, with the effects, and with what the provider did. */
export async function judge(db: pg.Client, truth: Truth): Promise<Judgement> {
  const { acceptance, ledger } = truth;
  const verdict: Verdict = {
    lost: 0,
    ghosts: 0,
    orderBreaks: 0,
    effectsTwice: 0,
    effectsMissing: 0,
    effectsOutOfOrder: 0,
    readModelsWrong: 0,
    callsTwice: 0,
    callsMissing: 0,
    callsWithoutEvent: 0,
    standstills: 0,
    heldWithoutCause: 0,
    heldAtTheEnd: 0,
    messagesLeft: 0,
    replaysUnfinished: 0,
    errorsWithoutCause: 0,
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
  await judgeEffects(db, truth, verdict, examples);
  await judgeReadModels(db, truth, failed);
  await judgeCalls(db, truth, failed);
  await judgeHeld(db, truth, failed);
  for (const left of truth.stuck) failed('standstills', () => left);
  for (const error of truth.errors) failed('errorsWithoutCause', () => error);
  verdict.messagesLeft = truth.messagesLeft;
  verdict.replaysUnfinished = truth.replaysUnfinished;
  return { verdict, events: present.size, deliveries, examples };
}

export type Failed = (what: keyof Verdict, text: () => string) => void;

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
      where d.replay = 0
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
    } else if (ORDERED.has(name) && place < last.place) {
      failed('orderBreaks', () => `${where} was taken as ${place}, before #${last.sequence} as ${last.place}`);
    } else {
      last = { place, sequence };
    }
  }
  const { rows: replayed } = await db.query(
    `select count(*)::integer as open from outbox.delivery where replay > 0 and state <> 'published'`,
  );
  if (replayed[0].open > 0) failed('unsettled', () => `${replayed[0].open} deliveries of replays`);
  for (const [name, places] of acceptance.first) {
    for (const id of places.keys()) if (!present.has(id)) failed('ghosts', () => `${name} ${id}`);
  }
  return deliveries;
}

async function judgeHeld(db: pg.Client, { unexplained }: Truth, failed: Failed): Promise<void> {
  for (const held of unexplained) failed('heldWithoutCause', () => held);
  const left = rows(db, `select consumer, aggregate_id, sequence, reason, queued from (${HELD}) h order by held_at`);
  for await (const { consumer, aggregate_id, sequence, reason, queued } of left) {
    failed(
      'heldAtTheEnd',
      () => `${consumer} ${aggregate_id}#${sequence}: ${reason}${queued === true ? ', counted' : ''}`,
    );
  }
}
