/** What a figure must reach; a figure without a goal is only printed. */
export type Goal = { readonly atLeast: number } | { readonly atMost: number };

export interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly goal?: Goal;
}

/** A figure as `--json` writes it. `ok` is null where there is no goal. */
export interface JudgedFigure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly goal: string | null;
  readonly ok: boolean | null;
}

/** Compares a figure with its goal. A figure that is no number (nothing was measured) misses any goal. */
export function judge({ name, value, unit, goal }: Figure): JudgedFigure {
  if (goal === undefined) return { name, value: round(value), unit, goal: null, ok: null };
  const [text, reached] =
    'atLeast' in goal
      ? [`≥ ${goal.atLeast.toLocaleString('en-US')}`, value >= goal.atLeast]
      : [`≤ ${goal.atMost.toLocaleString('en-US')}`, value <= goal.atMost];
  return { name, value: round(value), unit, goal: text, ok: reached && Number.isFinite(value) };
}

/** Three significant digits below 100, whole numbers above: more would pretend a precision that a shared machine has not. */
function round(value: number): number {
  if (!Number.isFinite(value)) return value;
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}

/** A value as tables have it. */
export function shown(value: number): string {
  return Number.isFinite(value) ? value.toLocaleString('en-US', { maximumFractionDigits: 3 }) : 'nothing measured';
}

/** One line per figure, columns aligned. */
export function table(figures: readonly JudgedFigure[]): string {
  const rows = figures.map(({ name, value, unit, goal, ok }) => [
    name,
    shown(value),
    unit,
    goal ?? '',
    ok === null ? '' : ok ? 'ok' : 'MISSED',
  ]);
  const all = [['what', 'value', 'unit', 'goal', ''], ...rows];
  const widths = [0, 1, 2, 3, 4].map((column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => (column === 1 ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)))
      .join('  ')
      .trimEnd();
  return all.map(line).join('\n');
}

/** The value below which `share` of the values lie; NaN of none. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}
