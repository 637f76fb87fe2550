import { globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { documentedMetrics } from '../../support/metrics-table.ts';

/** Every `metrics.add(` of the product: name and unit stand beside it, or the table could not be held against them. */
function emitted(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const file of globSync('{shared,functions}/**/*.ts')) {
    const source = readFileSync(file, 'utf8');
    const calls = source.match(/\bmetrics\.add\(/g)?.length ?? 0;
    const named = [...source.matchAll(/\bmetrics\.add\(\s*'([A-Za-z]+)',\s*'([A-Za-z]+)'/g)];
    expect(named, `calls of metrics.add with a literal name and unit in ${file}`).toHaveLength(calls);
    for (const [, name = '', unit = ''] of named) found.set(name, (found.get(name) ?? new Set()).add(unit));
  }
  return found;
}

describe('the table of metrics in docs/observability.md', () => {
  const documented = documentedMetrics();

  it('has every metric that is emitted, once, with its unit, and no other', () => {
    const units = [...emitted()].map(([name, set]) => `${name} ${[...set].join(' and ')}`);
    expect(documented.map(({ name, unit }) => `${name} ${unit}`).toSorted()).toEqual(units.toSorted());
  });

  it('keeps to a small set of dimensions: a combination costs money each month', () => {
    const used = new Set(documented.flatMap(({ dimensions }) => dimensions));
    expect([...used].toSorted()).toEqual(['Area', 'Class', 'Consumer', 'Destination', 'Reason', 'WaitsFor']);
  });
});
