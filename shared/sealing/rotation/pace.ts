import type { Log, LogFields } from '../../telemetry/index.ts';

/** Time as rotation needs it; tests hand in one that they move. */
export interface RotationClock {
  monotonic(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface PaceOptions {
  readonly clock: RotationClock;
  /** What it may take. Milliseconds. */
  readonly budgetMs: number;
  /** Rest after each page, as a multiple of the time that it took. Default: 1, half of the time. */
  readonly rest?: number;
  /** Keys looked at in a page. Default: 200, about 10 ms of the server; 500 take no less for each, 100 a quarter more. */
  readonly page?: number;
  readonly signal?: AbortSignal | undefined;
  readonly log: Log;
}

/** How long and how hard a walk through persons' keys works. */
export interface Pace {
  readonly clock: RotationClock;
  readonly page: number;
  /** Rests in proportion to the time since `startedAt`, and says now and then how far it is. */
  rest(startedAt: number, progress: () => LogFields): Promise<void>;
  isOver(): boolean;
}

/** How often a walk that goes on says how far it is. Milliseconds. */
const PROGRESS_MS = 10_000;

/** @param doing what its log lines say of it */
export function paceOf(
  { clock, budgetMs, rest = 1, page = 200, signal, log }: PaceOptions,
  doing = 'wrapping keys anew',
): Pace {
  const deadline = clock.monotonic() + budgetMs;
  let saidAt = clock.monotonic();
  return {
    clock,
    page,
    async rest(startedAt, progress) {
      if (clock.monotonic() - saidAt >= PROGRESS_MS) {
        saidAt = clock.monotonic();
        log.info(doing, progress());
      }
      const ms = Math.min(rest * (clock.monotonic() - startedAt), deadline - clock.monotonic());
      if (ms > 0) await clock.sleep(ms, signal);
    },
    isOver: () => signal?.aborted === true || clock.monotonic() >= deadline,
  };
}
