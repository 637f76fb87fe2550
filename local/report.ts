/** Says what a long step is doing at this moment; shown every few seconds, not at every call. */
export type Progress = (doing: string) => void;

export interface Report {
  /** Runs one step and prints its name with the time that it took. Steps may run side by side. */
  step<T>(name: string, work: (progress: Progress) => Promise<T>): Promise<T>;
  line(text: string): void;
  /** Only with `--verbose`. */
  detail(text: string): void;
}

export interface ReportOptions {
  readonly write: (line: string) => void;
  readonly verbose: boolean;
  /** Milliseconds, from any start. */
  readonly now: () => number;
  /** How often a step that takes long says that it is still there. Milliseconds. */
  readonly everyMs?: number;
}

/** Plain lines, no spinner and no colour: they read the same in a terminal, in a pipe and in a CI log. */
export function createReport({ write, verbose, now, everyMs = 5_000 }: ReportOptions): Report {
  const seconds = (since: number): string => `${((now() - since) / 1000).toFixed(1)} s`;
  return {
    async step(name, work) {
      const since = now();
      let doing = '';
      const timer = setInterval(() => write(`  … ${name}, ${seconds(since)}${doing && `: ${doing}`}`), everyMs);
      try {
        const result = await work((text) => {
          doing = text;
          if (verbose) write(`    ${name}: ${text}`);
        });
        write(`  ✓ ${name}  ${seconds(since)}`);
        return result;
      } finally {
        clearInterval(timer);
      }
    },
    line: write,
    detail(text) {
      if (verbose) write(`    ${text}`);
    },
  };
}
