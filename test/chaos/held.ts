import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { listHeld, retryHeld, skipHeld } from '../../shared/inbox/index.ts';
import type { Random } from './random.ts';
import type { Stage } from './stage.ts';

/**
 * What is held, and what counts failures of messages in a queue. Not counts of events that have been applied: where two deliveries of a message are
 * under way, one may fail when the other has succeeded, in mode any without waiting for it.
 */
export const HELD = `
  select h.* from inbox.held_event h
   where not (h.queued and exists (
     select from inbox.processed_event p where p.consumer = h.consumer and p.event_id = h.event_id))`;

/** Held events that nothing explains: of the others the handler always fails, or they wait behind such a one. */
export const UNEXPLAINED = `
  select h.consumer, h.event_id, h.aggregate_id, h.sequence, h.reason, h.attempts, h.last_error, h.queued
    from (${HELD}) h
   where not (h.reason = 'failing' and ${isPoison('h')})
     and not (h.consumer = 'ledger' and h.reason in ('gap', 'blocked') and not h.queued and exists (
       select from inbox.held_event b
        where b.consumer = h.consumer and b.aggregate_type = h.aggregate_type and b.aggregate_id = h.aggregate_id
          and b.sequence < h.sequence and b.reason = 'failing' and ${isPoison('b')}))`;

function isPoison(held: string): string {
  return `exists (select from outbox.event e where e.id = ${held}.event_id and e.data ->> 'fault' = 'poison')`;
}

export async function heldWithoutCause(stage: Stage): Promise<string[]> {
  const db = await stage.connect('postgres');
  try {
    const { rows } = await db.query(UNEXPLAINED);
    return rows.map(
      ({ consumer, aggregate_id, sequence, reason, attempts, last_error, queued }) =>
        `${consumer} ${aggregate_id}#${sequence} is ${queued === true ? 'counted' : 'held'} as ${reason} (${attempts} attempts, ${last_error})`,
    );
  } finally {
    await db.end();
  }
}

export interface Operated {
  /** Event by consumer, as `ledger <id>`: left out for good. */
  readonly skipped: ReadonlySet<string>;
  readonly mended: number;
  /** What was held when nothing moved any more, before the first act: reason by consumer, and how many. */
  readonly held: Readonly<Record<string, number>>;
}

const LOOK_MS = 300;

/**
 * What an operator does at the end: has half of the poison tried again, with a handler that was mended, and leaves out the other half, until
 * nothing is held any more or nothing moves.
 */
export async function release(
  stage: Stage,
  random: Random,
  standstillMs: number,
  interrupted: AbortSignal,
): Promise<Operated> {
  const db = await stage.connect('postgres');
  const operator = await stage.connect('sealed_operator');
  const skipped = new Set<string>();
  let mended = 0;
  let last = '';
  let movedAt = performance.now();
  try {
    const held = await heldNow(db);
    while (!interrupted.aborted && performance.now() - movedAt < standstillMs) {
      const acts = await actOnPoison(operator, db, random, skipped);
      mended += acts.mended;
      await bringForward(db);
      const { rows } = await db.query(`select count(*) as left from (${HELD}) h`);
      if (rows[0].left === '0') break;
      const now = `${rows[0].left} ${skipped.size} ${mended}`;
      if (now !== last) movedAt = performance.now();
      last = now;
      await delay(LOOK_MS);
    }
    return { skipped, mended, held };
  } finally {
    await operator.end();
    await db.end();
  }
}

async function heldNow(db: pg.Client): Promise<Record<string, number>> {
  const { rows } = await db.query(
    `select h.consumer || ': ' || h.reason as what, count(*)::integer as held
       from inbox.held_event h where not h.queued group by 1 order by 1`,
  );
  return Object.fromEntries(rows.map(({ what, held }) => [what, held]));
}

async function actOnPoison(
  operator: pg.Client,
  db: pg.Client,
  random: Random,
  skipped: Set<string>,
): Promise<{ readonly mended: number }> {
  let mended = 0;
  let after: string | null | undefined;
  while (after !== null) {
    const page = await listHeld(operator, { reason: 'failing', limit: 1_000, ...(after !== undefined && { after }) });
    after = page.next;
    for (const { consumer, eventId, wanted } of page.held) {
      const { rows } = await db.query(`select from outbox.event where id = $1 and data ->> 'fault' = 'poison'`, [
        eventId,
      ]);
      const { rowCount: known } = await db.query('select from mended where consumer = $1 and event_id = $2', [
        consumer,
        eventId,
      ]);
      // What is no poison stays, and the verdict tells; what was mended needs one act only.
      if (rows.length === 0 || wanted !== null || known === 1) continue;
      if (random() < 0.5) {
        await skipHeld(operator, consumer, eventId, 'the event is wrong');
        skipped.add(`${consumer} ${eventId}`);
      } else {
        await db.query('insert into mended values ($1, $2)', [consumer, eventId]);
        mended += 1;
        try {
          await retryHeld(operator, consumer, eventId, 'the handler was mended');
        } catch (error) {
          // It was due by itself, and its consumer has taken it between the two.
          if ((error as { readonly code?: unknown }).code !== 'HELD_EVENT_UNKNOWN') throw error;
        }
      }
    }
  }
  return { mended };
}

/** A failing event that is held is tried again after 20 s and more: time is moved instead. */
export async function bringForward(db: pg.Client): Promise<void> {
  await db.query(
    `update inbox.held_event set due_at = '-infinity'
      where reason = 'failing' and not queued and due_at > clock_timestamp() and due_at < 'infinity'`,
  );
}
