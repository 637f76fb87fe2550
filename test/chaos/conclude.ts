import type { MailProvider } from '../../local/mail-provider/server.ts';
import type { Acceptance } from './acceptance.ts';
import type { Operated } from './held.ts';
import type { ChaosOptions } from './options.ts';
import type { Relays } from './relays.ts';
import type { ChaosReport } from './report.ts';
import type { Stage } from './stage.ts';
import { judge } from './verdict.ts';
import type { Ledger } from './writers.ts';

/** What a run leaves to be judged. */
export interface Run {
  readonly options: ChaosOptions;
  readonly stage: Stage;
  readonly taken: Acceptance;
  readonly ledger: Ledger;
  readonly faults: ReadonlyMap<string, number>;
  readonly relays: Pick<Relays, 'points' | 'starts'>;
  readonly provider: MailProvider;
  readonly operated: Operated;
  readonly stuck: readonly string[];
  readonly unexplained: readonly string[];
  readonly messagesLeft: number;
  readonly replaysUnfinished: number;
  readonly errors: readonly string[];
  readonly complete: boolean;
  readonly seconds: ChaosReport['seconds'];
}

export async function conclude(run: Run): Promise<ChaosReport> {
  const { stage, taken, ledger, provider, operated, seconds } = run;
  const { seen, killed } = run.relays.points;
  const { verbose: _, ...options } = run.options;
  const mails = provider.mails();
  const db = await stage.connect('postgres');
  try {
    const { verdict, events, deliveries, examples } = await judge(db, {
      ...run,
      acceptance: taken,
      skipped: operated.skipped,
      mails,
    });
    return {
      ok: Object.values(verdict).every((count) => count === 0),
      complete: run.complete,
      options,
      verdict,
      events: {
        committed: events,
        rolledBack: ledger.rolledBack.size,
        ambiguous: ledger.ambiguous.size,
        deliveries,
        repeats: taken.repeats,
      },
      transactions: sorted(ledger.kinds),
      faults: sorted(run.faults),
      held: operated.held,
      operator: { mended: operated.mended, skipped: operated.skipped.size },
      provider: { requests: provider.requests().length, mails: mails.length },
      relayStarts: run.relays.starts,
      awaitPoints: {
        seen: seen.size,
        killed: [...killed].sort(),
        missed: [...seen].filter((point) => !killed.has(point)).sort(),
      },
      seconds,
      deliveriesPerSecond: taken.events / (seconds.storm + seconds.calm),
      examples,
    };
  } finally {
    await db.end();
  }
}

function sorted(counts: ReadonlyMap<string, number>): Record<string, number> {
  return Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1)));
}
