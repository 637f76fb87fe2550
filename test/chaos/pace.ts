import type { Acceptance } from './acceptance.ts';
import type { ChaosOptions } from './options.ts';
import type { Ledger } from './writers.ts';

/** Writers wait when so many deliveries are not yet out, or not yet applied. */
const BACKLOG = 50_000;
/** And when all is written and only faults are waited for. */
const SMALL_BACKLOG = 300;
/** Deliveries of an event, on average. */
const DELIVERIES = 1.5;

/** Tells the writers to wait: for the pace that was asked for, or until relays and consumers have caught up. */
export function pace(
  { events, rate }: Pick<ChaosOptions, 'events' | 'rate'>,
  ledger: Ledger,
  taken: Acceptance,
  acknowledged: () => number,
  seconds: () => number,
): () => boolean {
  let fullSince: number | undefined;
  return () => {
    const written = ledger.committed.size;
    let allowed = rate * seconds();
    let backlog = BACKLOG;
    if (written >= events) {
      // What is over the number keeps relays busy until every fault had its turn.
      fullSince ??= seconds();
      backlog = SMALL_BACKLOG;
      allowed = events + Math.min(100, rate) * (seconds() - fullSince);
    }
    return written >= allowed || Math.max(written * DELIVERIES - taken.events, taken.events - acknowledged()) > backlog;
  };
}
