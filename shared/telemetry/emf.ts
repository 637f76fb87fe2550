import type { Metrics } from './metrics.ts';

export interface EmfOptions {
  /** Added to the dimensions of every value, such as `Installation`. */
  readonly dimensions: Readonly<Record<string, string>>;
  /** Takes one line without its end. On Lambda: `process.stdout`; `console.log` puts a prefix before it that CloudWatch does not parse. */
  readonly write: (line: string) => void;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

const NAMESPACE = 'SealedOutbox';

/**
 * Metrics in CloudWatch's embedded metric format: each value is a line of JSON in the function's log, from which
 * CloudWatch takes it. No call over the network, nothing to flush before the sandbox is frozen.
 */
export function emfMetrics({ dimensions: common, write, now }: EmfOptions): Metrics {
  return {
    add(name, unit, value, dimensions = {}) {
      const all = { ...common, ...dimensions };
      write(
        JSON.stringify({
          _aws: {
            Timestamp: now(),
            CloudWatchMetrics: [
              { Namespace: NAMESPACE, Dimensions: [Object.keys(all)], Metrics: [{ Name: name, Unit: unit }] },
            ],
          },
          ...all,
          [name]: value,
        }),
      );
    },
  };
}
