/** One measured value, as PutMetricData or a line in EMF brings it. */
export interface Sample {
  readonly namespace: string;
  readonly name: string;
  readonly dimensions: Readonly<Record<string, string>>;
  readonly value: number;
  readonly unit: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A metric is its namespace, its name and exactly its dimensions: with one dimension more it is another metric. */
function metricKey(metric: Pick<Sample, 'namespace' | 'name' | 'dimensions'>): string {
  const dimensions = Object.entries(metric.dimensions).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([metric.namespace, metric.name, dimensions]);
}

export interface SampleStore {
  add(samples: readonly Sample[]): void;
  of(metric: Pick<Sample, 'namespace' | 'name' | 'dimensions'>): readonly Sample[];
}

/** Longer than the range that any alarm of this project looks at. */
const KEPT_MS = 60 * 60_000;

/** Keeps samples of the last hour, by metric. */
export function createSampleStore(now: () => number): SampleStore {
  const byMetric = new Map<string, Sample[]>();
  return {
    add(samples) {
      for (const sample of samples) {
        const key = metricKey(sample);
        const kept = (byMetric.get(key) ?? []).filter(({ at }) => at > now() - KEPT_MS);
        byMetric.set(key, [...kept, sample]);
      }
    },
    of: (metric) => byMetric.get(metricKey(metric)) ?? [],
  };
}
