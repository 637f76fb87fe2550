import type { Sample } from './samples.ts';

interface Directive {
  readonly Namespace?: unknown;
  readonly Dimensions?: unknown;
  readonly Metrics?: unknown;
}

/**
 * The samples of one log line in CloudWatch's embedded metric format: one per metric, dimension set and value. Null for a
 * line that is not in this format (most are not). A metric that the line names but does not carry is left out, as
 * CloudWatch does.
 *
 * @param receivedAt milliseconds since 1970, for a line that brings no time
 */
export function samplesOfLine(line: string, receivedAt: number): Sample[] | null {
  const document = parseObject(line);
  const meta = document?.['_aws'];
  if (document === null || !isObject(meta) || !Array.isArray(meta['CloudWatchMetrics'])) return null;
  const at = typeof meta['Timestamp'] === 'number' ? meta['Timestamp'] : receivedAt;
  return meta['CloudWatchMetrics'].flatMap((directive: unknown) =>
    isObject(directive) ? samplesOfDirective(document, directive, at) : [],
  );
}

function samplesOfDirective(document: Record<string, unknown>, directive: Directive, at: number): Sample[] {
  const { Namespace: namespace, Dimensions: sets, Metrics: metrics } = directive;
  if (typeof namespace !== 'string' || !Array.isArray(metrics)) return [];
  // No dimension sets at all is the metric without dimensions.
  const dimensionSets: unknown[] = Array.isArray(sets) && sets.length > 0 ? sets : [[]];
  return dimensionSets.flatMap((set) => {
    const dimensions = dimensionsOf(document, set);
    if (dimensions === null) return [];
    return metrics.flatMap((metric: unknown) => {
      if (!isObject(metric) || typeof metric['Name'] !== 'string') return [];
      const name = metric['Name'];
      const unit = typeof metric['Unit'] === 'string' ? metric['Unit'] : 'None';
      return numbers(document[name]).map((value) => ({ namespace, name, dimensions, value, unit, at }));
    });
  });
}

/** Null when the document lacks one of the dimensions: CloudWatch then makes no metric of that set. */
function dimensionsOf(document: Record<string, unknown>, set: unknown): Record<string, string> | null {
  if (!Array.isArray(set)) return null;
  const entries = set.map((name: unknown) => [String(name), document[String(name)]] as const);
  if (entries.some(([, value]) => value === undefined || value === null)) return null;
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]));
}

const numbers = (value: unknown): number[] =>
  (Array.isArray(value) ? value : [value]).filter((item): item is number => typeof item === 'number');

function parseObject(line: string): Record<string, unknown> | null {
  if (!line.trimStart().startsWith('{')) return null;
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
