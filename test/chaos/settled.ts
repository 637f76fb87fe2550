import { setTimeout as delay } from 'node:timers/promises';
import type { Acceptance } from './acceptance.ts';
import type { Stage } from './stage.ts';

/** Waits until all is published and applied, or nothing moves any more. */
export async function settled(
  stage: Stage,
  taken: Acceptance,
  standstillMs: number,
  interrupted: AbortSignal,
  say: (line: string) => void,
): Promise<void> {
  const db = await stage.connect('postgres');
  try {
    let last = '';
    let movedAt = performance.now();
    let saidAt = movedAt;
    while (!interrupted.aborted && performance.now() - movedAt < standstillMs) {
      const before = performance.now();
      const { rows } = await db.query(
        `select (select count(*) from outbox.delivery where state in ('pending', 'blocked')) as open,
                (select count(*) from outbox.delivery) - (select count(*) from effect) as unapplied`,
      );
      const now = `${rows[0].open} deliveries open, ${rows[0].unapplied} not applied`;
      if (Number(rows[0].open) === 0 && Number(rows[0].unapplied) <= 0) return;
      if (`${now} ${taken.events} ${taken.repeats}` !== last) movedAt = performance.now();
      last = `${now} ${taken.events} ${taken.repeats}`;
      if (performance.now() - saidAt >= 10_000) {
        say(now);
        saidAt = performance.now();
      }
      // Counting millions must not take the processor from what is counted.
      await delay(Math.max(200, 5 * (performance.now() - before)));
    }
  } finally {
    await db.end();
  }
}
