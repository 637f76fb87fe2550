export const SUITES = ['unit', 'integration', 'contract', 'infra', 'e2e', 'long'] as const;

export type Suite = (typeof SUITES)[number];

export interface TestArguments {
  readonly help: boolean;
  /** In the order in which they run; empty: none was named. */
  readonly suites: readonly Suite[];
  /** Goes to vitest as it is. */
  readonly rest: readonly string[];
}

/** Suites are named first; from the first other word on, everything belongs to vitest, so `-t unit` is a name filter. */
export function parseTestArguments(words: readonly string[]): TestArguments {
  const isSuite = (word: string): word is Suite => (SUITES as readonly string[]).includes(word);
  const end = words.findIndex((word) => !isSuite(word));
  const named = new Set<string>(end === -1 ? words : words.slice(0, end));
  return {
    help: words.includes('--help') || words.includes('-h'),
    suites: SUITES.filter((suite) => named.has(suite)),
    rest: end === -1 ? [] : words.slice(end),
  };
}
