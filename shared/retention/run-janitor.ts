import type { Log, Metrics } from '../telemetry/index.ts';
import type { PrunedPage, Walk } from './walk.ts';

/** Time as the janitor needs it; tests hand in one that they move. */
interface Clock {
  monotonic(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface JanitorOptions {
  readonly walks: readonly Walk[];
  /** What the run may take. A page that has begun is finished, so leave some time behind it. */
  readonly budgetMs: number;
  /**
   * Rest after each page, as a multiple of the time that it took, so that the janitor is never more than a part of the database's load.
   * Default: 1, half of the time.
   */
  readonly rest?: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Ends the run after the page that is under way. */
  readonly signal?: AbortSignal;
}

export interface WalkReport {
  readonly walk: string;
  readonly area: string;
  readonly pages: number;
  /** Rows deleted, by table. */
  readonly removed: Readonly<Record<string, number>>;
  /** `end`: nothing older is left. `time`: the next run goes on. `failed`: as the log says. `not-yet`: what comes before it is not done. */
  readonly ended: 'end' | 'time' | 'failed' | 'not-yet';
  readonly behindSeconds: number;
}

export interface JanitorReport {
  readonly walks: readonly WalkReport[];
  readonly failed: boolean;
}

/** How often a walk that goes on says how far it is. Milliseconds. */
const PROGRESS_MS = 10_000;

/**
 * Walks through all that may have old rows, one after the other. Each gets an equal share of the time that is left, so a table that is far
 * behind starves none; what one does not need goes to those after it. A walk that fails is reported and does not stop the others.
 *
 * Metrics, by `Area`: `Pruned` (Count), and `PruneLag` (Seconds), how much older than it need be is what the slowest walk of the area has not come
 * to. An area in which a walk failed has no `PruneLag`: its alarm takes missing data for a breach.
 */
export async function runJanitor(options: JanitorOptions): Promise<JanitorReport> {
  const { walks, budgetMs, clock, metrics } = options;
  const deadline = clock.monotonic() + budgetMs;
  const reports: WalkReport[] = [];
  for (const [index, walk] of walks.entries()) {
    const before = reports.at(-1);
    if (walk.afterPrevious === true && before !== undefined && before.ended !== 'end') {
      const { name, area } = walk;
      reports.push({ walk: name, area, pages: 0, removed: {}, ended: 'not-yet', behindSeconds: 0 });
      continue;
    }
    const share = (deadline - clock.monotonic()) / (walks.length - index);
    reports.push(await runWalk(walk, clock.monotonic() + share, options));
  }
  for (const [area, of] of Map.groupBy(reports, (report) => report.area)) {
    const at = { Area: area };
    const removed = of.flatMap((report) => Object.values(report.removed)).reduce((sum, rows) => sum + rows, 0);
    metrics.add('Pruned', 'Count', removed, at);
    if (of.every(({ ended }) => ended !== 'failed')) {
      metrics.add('PruneLag', 'Seconds', Math.max(...of.map(({ behindSeconds }) => behindSeconds)), at);
    }
  }
  return { walks: reports, failed: reports.some(({ ended }) => ended === 'failed') };
}

async function runWalk(
  walk: Walk,
  deadline: number,
  { clock, log, signal, rest = 1 }: JanitorOptions,
): Promise<WalkReport> {
  const removed: Record<string, number> = {};
  let pages = 0;
  let behindSeconds = 0;
  let saidAt = clock.monotonic();
  const report = (ended: WalkReport['ended']): WalkReport => ({
    walk: walk.name,
    area: walk.area,
    pages,
    removed,
    ended,
    behindSeconds,
  });
  const over = (): boolean => signal?.aborted === true || clock.monotonic() >= deadline;
  try {
    let page: PrunedPage = { mark: await walk.begin(), more: true, behindSeconds: 0, removed: {} };
    // One page at least: a walk whose share is too short for one would never get anywhere.
    do {
      const startedAt = clock.monotonic();
      page = await walk.page(page.mark);
      pages += 1;
      ({ behindSeconds } = page);
      for (const [table, rows] of Object.entries(page.removed)) removed[table] = (removed[table] ?? 0) + rows;
      if (!page.more) break;
      if (clock.monotonic() - saidAt >= PROGRESS_MS) {
        saidAt = clock.monotonic();
        log.info('pruning', { walk: walk.name, pages, removed, behindSeconds });
      }
      const restMs = Math.min(rest * (clock.monotonic() - startedAt), deadline - clock.monotonic());
      if (restMs > 0) await clock.sleep(restMs, signal);
    } while (!over());
    return report(page.more ? 'time' : 'end');
  } catch (error) {
    const { name, code } = error as Error & { code?: string };
    log.error('a walk failed; what it had done stays done, and the next run goes on there', {
      walk: walk.name,
      error: { name, code },
    });
    return report('failed');
  }
}
