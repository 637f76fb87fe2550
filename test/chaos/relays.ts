import type { ChildProcess } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import type { CrashAt, PointReport } from './await-points.ts';
import { spawnProgram } from './program.ts';
import type { Random } from './random.ts';
import type { RelayProcessOptions } from './relay-process.ts';
import type { UnexplainedReport } from './unexplained.ts';

export interface RelaysOptions {
  readonly count: number;
  /** The program of a relay process. */
  readonly program: string;
  readonly random: Random;
  /** What every relay process gets, without its own number. */
  readonly common: Omit<RelayProcessOptions, 'index' | 'of' | 'crash'>;
  /** Whether relays kill themselves at await points. */
  readonly sweep: boolean;
  injected(kind: string): void;
  /** A session ended with an error that no fault explains. */
  unexplained(error: string): void;
}

/** The relay processes of a run, each started again when it dies. */
export interface Relays {
  /** Await points that some relay has come to, and those at which one was killed. */
  readonly points: { readonly seen: ReadonlySet<string>; readonly killed: ReadonlySet<string> };
  readonly starts: number;
  /** Whether each has come so far as to connect. */
  readonly up: boolean;
  /** Whether every point that is known by now has had its death, or was missed too often. */
  readonly swept: boolean;
  kill(index: number): void;
  /** Ends one as a deployment would; it gives its partitions back. */
  terminate(index: number): void;
  /** Stops one (SIGSTOP) and lets it go on where it stood. */
  freeze(index: number, ms: number): Promise<void>;
  /** From now on none kills itself. */
  calm(): void;
  /** Ends all, at once. */
  stop(): Promise<void>;
}

/** A relay that does not come to its point in this time is asked to end, which leads past the points of the end. Milliseconds. */
const PATIENCE_MS = 4_000;
/** What a relay comes to again and again, and not always in the same circumstances. */
const OFTEN = /publish|find|load|update delivery/;
/** A point that is missed so often is left, and reported. */
const TRIES = 4;

export function startRelays(options: RelaysOptions): Relays {
  const seen = new Set<string>();
  const killed = new Set<string>();
  /** The point that some relay is on its way to. */
  let assigned: string | undefined;
  const tries = new Map<string, number>();
  const children = new Map<number, ChildProcess>();
  const up = new Set<number>();
  let stopped = false;
  let sweeping = options.sweep;
  let starts = 0;

  const open = (): string[] => [...seen].filter((point) => !killed.has(point) && (tries.get(point) ?? 0) < TRIES);

  const nextCrash = (): CrashAt | undefined => {
    // The first life of each shows the points. One at a time, so that work gets done meanwhile.
    if (!sweeping || starts <= options.count || assigned !== undefined) return undefined;
    // What was missed is tried again, after the others; what happens most comes first, for runs that are too short for all.
    const [point] = open().sort(
      (a, b) => (tries.get(a) ?? 0) - (tries.get(b) ?? 0) || Number(OFTEN.test(b)) - Number(OFTEN.test(a)),
    );
    if (point === undefined) return undefined;
    const tried = tries.get(point) ?? 0;
    tries.set(point, tried + 1);
    assigned = point;
    return { point, occurrence: tried === 0 && OFTEN.test(point) ? 1 + Math.floor(options.random() * 3) : 1 };
  };

  const live = async (index: number): Promise<void> => {
    // oxlint-disable-next-line no-unmodified-loop-condition -- `stop` sets it while a relay lives
    while (!stopped) {
      starts += 1;
      const crash = nextCrash();
      const given: RelayProcessOptions = { ...options.common, index, ...(crash && { crash }) };
      const { child, ended } = spawnProgram(options.program, given, (line) => {
        const report = JSON.parse(line) as PointReport | UnexplainedReport;
        if ('unexplained' in report) {
          options.unexplained(`relay-${index} ${report.unexplained}`);
          return;
        }
        if ('dying' in report) {
          killed.add(report.dying);
          options.injected('SIGKILL at an await point');
          return;
        }
        seen.add(report.seen);
        if (report.seen === 'after connect') up.add(index);
      });
      children.set(index, child);
      const patience = crash === undefined ? undefined : setTimeout(() => child.kill('SIGTERM'), PATIENCE_MS);
      await ended;
      clearTimeout(patience);
      if (crash !== undefined) assigned = undefined;
      children.delete(index);
      if (!stopped) await delay(20);
    }
  };
  const lives = Array.from({ length: options.count }, (_, index) => live(index));

  return {
    points: { seen, killed },
    get starts() {
      return starts;
    },
    get up() {
      return up.size === options.count;
    },
    get swept() {
      return seen.size > 0 && open().length === 0;
    },
    kill: (index) => void children.get(index)?.kill('SIGKILL'),
    terminate: (index) => void children.get(index)?.kill('SIGTERM'),
    async freeze(index, ms) {
      const child = children.get(index);
      if (child === undefined) return;
      child.kill('SIGSTOP');
      await delay(ms);
      child.kill('SIGCONT');
    },
    calm() {
      sweeping = false;
    },
    async stop() {
      stopped = true;
      // SIGKILL also ends what is frozen.
      for (const child of children.values()) child.kill('SIGKILL');
      await Promise.all(lives);
    },
  };
}
