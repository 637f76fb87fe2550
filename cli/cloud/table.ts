/** `lastError` → `last error`. */
export function words(name: string): string {
  return name.replaceAll(/([a-z])([A-Z])/g, (_, before: string, after: string) => `${before} ${after.toLowerCase()}`);
}

/** A value for a person: in one line, and nothing where there is none. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : value.toFixed(1);
  if (typeof value === 'string')
    return printable(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value) ? `${value.slice(0, 19)}Z` : value);
  return printable(JSON.stringify(value));
}

/** What came from elsewhere must not move the cursor or hide anything. */
function printable(text: string): string {
  return text.replaceAll(
    /\p{Cc}|\p{Cf}/gu,
    (character) => `\\u${character.codePointAt(0)?.toString(16).padStart(4, '0')}`,
  );
}

/** Rows under headings; numbers to the right. */
export function table(headings: readonly string[], rows: readonly (readonly unknown[])[]): string {
  const texts = [headings, ...rows.map((row) => row.map(cell))];
  const right = headings.map((_, column) => rows.length > 0 && rows.every((row) => typeof row[column] === 'number'));
  const widths = headings.map((_, column) => Math.max(...texts.map((row) => (row[column] ?? '').length)));
  return texts
    .map((row) =>
      row
        .map((text, column) =>
          right[column] === true ? text.padStart(widths[column] ?? 0) : text.padEnd(widths[column] ?? 0),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
