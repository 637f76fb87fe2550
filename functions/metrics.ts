import { emfMetrics, type Metrics } from '../shared/telemetry/index.ts';

/** Metrics as lines of the function's log, under the installation that the deployment names (`OUTBOX_INSTALLATION`). */
export function functionMetrics(env: Readonly<Record<string, string | undefined>> = process.env): Metrics {
  return emfMetrics({
    dimensions: { Installation: env['OUTBOX_INSTALLATION'] ?? 'unnamed' },
    write: (line) => process.stdout.write(`${line}\n`),
    now: Date.now,
  });
}
