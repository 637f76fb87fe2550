/** CloudWatch's names of the units that this library uses. */
export type MetricUnit = 'Count' | 'Seconds' | 'Milliseconds' | 'Bytes' | 'Percent';

/** What the library counts into. Dimensions are few and bounded: a combination costs money each month. */
export interface Metrics {
  add(name: string, unit: MetricUnit, value: number, dimensions?: Readonly<Record<string, string>>): void;
}

/** Drops everything. */
export const noMetrics: Metrics = { add() {} };
