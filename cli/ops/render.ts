import type { Command } from '../../shared/operations/index.ts';
import { cell, table, words } from '../cloud/table.ts';

type Row = Readonly<Record<string, unknown>>;

/** An answer for people: its single values line by line, then a table for each of its lists. */
export function rendered(answer: Row, { columns }: Pick<Command, 'columns'>): string {
  const single = Object.entries(answer).filter(([, value]) => !isList(value));
  const width = Math.max(0, ...single.map(([name]) => words(name).length));
  const lines = single.map(([name, value]) => `${words(name).padEnd(width)}  ${cell(value)}`);
  const lists = Object.entries(answer).flatMap(([name, value]) =>
    isList(value) ? [listed(name, value, columns?.[name])] : [],
  );
  return [...(lines.length > 0 ? [lines.join('\n')] : []), ...lists].join('\n\n');
}

function isList(value: unknown): value is readonly Row[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'object' && item !== null);
}

function listed(name: string, rows: readonly Row[], columns?: readonly string[]): string {
  if (rows.length === 0) return `${words(name)}: none`;
  const shown = columns ?? Object.keys(rows[0] ?? {});
  const body = table(
    shown.map(words),
    rows.map((row) => shown.map((column) => row[column])),
  );
  return `${words(name)}:\n${body.replaceAll(/^/gm, '  ')}`;
}
