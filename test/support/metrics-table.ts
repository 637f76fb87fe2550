import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface DocumentedMetric {
  readonly name: string;
  readonly unit: string;
  readonly dimensions: readonly string[];
  /** Names of the alarms that read it, with `…` for a destination, a consumer or an area. */
  readonly alarms: readonly string[];
}

const ROW = /^\| `(?<name>[A-Za-z]+)` \| (?<unit>[A-Za-z]+) \|(?<dimensions>[^|]*)\|[^|]+\|(?<alarm>[^|]*)\|$/;

/** The table of metrics in docs/observability.md. */
export function documentedMetrics(): DocumentedMetric[] {
  const text = readFileSync(join(import.meta.dirname, '../../docs/observability.md'), 'utf8');
  const section = text.split(/^## /m).find((part) => part.startsWith('Metrics\n')) ?? '';
  return section.split('\n').flatMap((line) => {
    const { name, unit, dimensions, alarm } = ROW.exec(line)?.groups ?? {};
    if (name === undefined || unit === undefined) return [];
    const words = (cell: string | undefined): string[] =>
      [...(cell ?? '').matchAll(/`([^`]+)`/g)].map(([, it = '']) => it);
    return [{ name, unit, dimensions: words(dimensions), alarms: words(alarm) }];
  });
}
