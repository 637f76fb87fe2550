import { SealingSchemaError } from './schema-error.ts';

/** Names of one place can match so many patterns in all: each combination is a case of its own. */
const MAX_PATTERNS = 4;

const LITERAL = String.raw`[A-Za-z0-9_ :@,;~/=%!#&-]`;
const ESCAPED = String.raw`\\[.\-/$^()[\]{}|?*+\\]`;
const SET = String.raw`\[\^?(?:[A-Z]-[A-Z]|[a-z]-[a-z]|[0-9]-[0-9]|[A-Za-z0-9_.:@])+-?\]`;
const QUANTIFIER = String.raw`[?*+]|\{[0-9]{1,2}(?:,[0-9]{0,2})?\}`;
/** What ECMAScript and PostgreSQL read alike: no `.` (newlines), no `\d` or `\w` (letters of other scripts), no look-around. */
const PORTABLE = new RegExp(String.raw`^(?:\^|\$|\||\(\?:|\((?!\?)|\)|${QUANTIFIER}|${SET}|${ESCAPED}|${LITERAL})*$`);
const PREFIX = new RegExp(`^\\^(${LITERAL}+)(?![?*{])`);

/** @throws SealingSchemaError (`SEALING_PATTERN`) unless PostgreSQL can decide by these patterns as we do. */
export function checkPatterns(place: string, patterns: readonly string[]): void {
  if (patterns.length > MAX_PATTERNS) {
    throw new SealingSchemaError('SEALING_PATTERN', place, `at most ${MAX_PATTERNS} patterns of names beside marks.`);
  }
  for (const pattern of patterns) {
    if (!PORTABLE.test(pattern)) {
      throw new SealingSchemaError(
        'SEALING_PATTERN',
        place,
        `the pattern ${JSON.stringify(pattern)} is not surely read by PostgreSQL as by JavaScript: use literals, sets such as [a-z0-9_], groups, ` +
          '^, $, |, ?, *, + and {n}, and nothing else.',
      );
    }
  }
}

/** Whether no name matches all patterns of a mask, as far as that is plain. */
export function isImpossible(patterns: readonly string[], mask: number): boolean {
  const matching = patterns.filter((_, bit) => (mask & (1 << bit)) !== 0);
  return matching.some((one, index) => matching.slice(index + 1).some((other) => disjoint(one, other)));
}

/** Each fixes a beginning, and the beginnings differ. */
function disjoint(one: string, other: string): boolean {
  const [a, b] = [prefixOf(one), prefixOf(other)];
  return a !== '' && b !== '' && !a.startsWith(b) && !b.startsWith(a);
}

function prefixOf(pattern: string): string {
  if (pattern.includes('|')) return '';
  return PREFIX.exec(pattern)?.[1] ?? '';
}
