import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { Acceptance } from './acceptance.ts';
import { CONSUMERS, MODES } from './catalogue.ts';
import { bringForward, UNEXPLAINED } from './held.ts';
import { messagesIn } from './queue-calls.ts';
import type { Stage } from './stage.ts';

export interface SettledOptions {
  readonly stage: Stage;
  readonly taken: Acceptance;
  /** What nobody works on for so long stays as it is: while something is still to be published or delivered, and after that. */
  readonly standstillMs: { readonly busy: number; readonly idle: number };
  readonly interrupted: AbortSignal;
  readonly say: (line: string) => void;
}

/**
 * Waits until all is published, applied or held for a reason, and no queue has anything left; or until nothing moves any more.
 *
 * @returns what was left when nothing moved any more, in words
 */
export async function settled(options: SettledOptions): Promise<string | undefined> {
  const { stage, taken, standstillMs, interrupted, say } = options;
  const db = await stage.connect('postgres');
  try {
    let left: string | undefined;
    let last = '';
    let movedAt = performance.now();
    let saidAt = movedAt;
    let patience = standstillMs.busy;
    while (!interrupted.aborted && performance.now() - movedAt < patience) {
      const before = performance.now();
      await bringForward(db);
      const queued = await messagesIn(stage.queue);
      const { open, unapplied, unexplained } = await waiting(db);
      if (open === 0 && unapplied <= 0 && unexplained === 0 && queued === 0) return undefined;
      patience = open === 0 && queued === 0 ? standstillMs.idle : standstillMs.busy;
      left = `${open} deliveries open, ${queued} messages in queues, ${unapplied} not applied, ${unexplained} held`;
      if (`${left} ${taken.events} ${taken.repeats}` !== last) movedAt = performance.now();
      last = `${left} ${taken.events} ${taken.repeats}`;
      if (performance.now() - saidAt >= 10_000) {
        say(left);
        saidAt = performance.now();
      }
      // Counting millions must not take the processor from what is counted.
      await delay(Math.max(200, 5 * (performance.now() - before)));
    }
    return interrupted.aborted ? undefined : left;
  } finally {
    await db.end();
  }
}

/** Mode latest drops events; of the other consumers each delivery has an effect or is held. */
const EXACT = CONSUMERS.filter((name) => MODES[name] !== 'latest');

async function waiting(db: pg.Client): Promise<{ open: number; unapplied: number; unexplained: number }> {
  const { rows } = await db.query(
    `select (select count(*) from outbox.delivery where state in ('pending', 'blocked'))::integer as open,
            ((select count(*) from outbox.delivery d join outbox.destination t on t.number = d.destination
               where d.replay = 0 and t.name = any ($1))
             - (select count(*) from effect where consumer = any ($1))
             - (select count(*) from inbox.held_event where consumer = any ($1) and not queued))::integer as unapplied,
            (select count(*) from (${UNEXPLAINED}) u)::integer as unexplained`,
    [EXACT],
  );
  return rows[0];
}
