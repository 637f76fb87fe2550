import type { ChaosOptions } from './options.ts';
import type { Verdict } from './verdict.ts';

export interface ChaosReport {
  /** Whether every number of the verdict is 0. */
  readonly ok: boolean;
  /** Whether all events were written and every fault and await point had its turn: false when time was up or somebody ended it. */
  readonly complete: boolean;
  readonly options: Omit<ChaosOptions, 'verbose'>;
  readonly verdict: Verdict;
  readonly events: {
    readonly committed: number;
    readonly rolledBack: number;
    /** The connection broke during the commit: the database decided. */
    readonly ambiguous: number;
    readonly deliveries: number;
    /** Entries that a queue took again. */
    readonly repeats: number;
  };
  /** How the writers' transactions ended. */
  readonly transactions: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  /** What was held when nothing moved any more, by consumer and reason, and what the operator did. */
  readonly held: Readonly<Record<string, number>>;
  readonly operator: { readonly mended: number; readonly skipped: number };
  /** What the provider was asked, and what it did. */
  readonly provider: { readonly requests: number; readonly mails: number };
  readonly relayStarts: number;
  readonly awaitPoints: {
    readonly seen: number;
    readonly killed: readonly string[];
    readonly missed: readonly string[];
  };
  readonly seconds: {
    /** Writing under faults. */
    readonly storm: number;
    /** From the last fault to the last effect. */
    readonly calm: number;
  };
  readonly deliveriesPerSecond: number;
  readonly examples: readonly string[];
}

/** The report for people. */
export function reportLines(report: ChaosReport): string[] {
  const { options, events, seconds, awaitPoints } = report;
  const counts = (record: Readonly<Record<string, number>>): string[] =>
    Object.entries(record).map(([kind, count]) => `  ${String(count).padStart(9)}  ${kind}`);
  return [
    `Chaos: ${options.relays} ${options.relay === 'ours' ? '' : `${options.relay} `}relays, ` +
      `${options.consumer === 'ours' ? '' : `consumers that are ${options.consumer}, `}seed ${options.seed}, ` +
      `${seconds.storm.toFixed(1)} s of faults, settled ${seconds.calm.toFixed(1)} s later`,
    '',
    'Written',
    ...counts({
      'events committed': events.committed,
      'events rolled back': events.rolledBack,
      'events whose commit was not answered': events.ambiguous,
      deliveries: events.deliveries,
      'repeats at the queue': events.repeats,
    }),
    `  ${report.deliveriesPerSecond.toFixed(0).padStart(9)}  deliveries a second, all the while`,
    'Transactions',
    ...counts(report.transactions),
    'Faults',
    ...counts(report.faults),
    `  ${String(report.relayStarts).padStart(9)}  starts of relay processes`,
    ...(options.sweep !== 'off' && options.relay === 'ours'
      ? [
          `Await points: ${awaitPoints.seen} seen, killed at ${awaitPoints.killed.length}` +
            (awaitPoints.missed.length > 0 ? `; not at ${awaitPoints.missed.join('; ')}` : ''),
        ]
      : []),
    'Held before the operator came',
    ...counts(report.held),
    ...counts({ 'mended and tried again': report.operator.mended, 'left out': report.operator.skipped }),
    'Provider',
    ...counts({ requests: report.provider.requests, mails: report.provider.mails }),
    'Verdict (each must be 0)',
    ...counts(Object.fromEntries(Object.entries(report.verdict).map(([name, count]) => [words(name), count]))),
    ...report.examples.map((example) => `  e.g. ${example}`),
    ...(report.complete ? [] : ['Ended before all events were written and every fault had its turn.']),
    report.ok ? 'OK: nothing lost, invented, out of order, done twice or left.' : 'FAILED.',
  ];
}

/** `parkedWithoutCause` → `parked without cause` */
function words(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
