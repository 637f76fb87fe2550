import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from '../../../cli/ops/parse.ts';
import { type CommandName, commandNames, commands, recordedArguments } from '../../../shared/operations/index.ts';

/** Words as a shell takes them: quotes hold spaces. */
function shellWords(line: string): string[] {
  return [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, bare]) => double ?? single ?? bare ?? '',
  );
}

const parsed = (line: string) => parse(shellWords(line));

describe('the table of commands', () => {
  it.each(commandNames)('%s is told as the command line takes it', (name) => {
    const { kind, confirm, before, places, arguments: schema, examples, summary } = commands[name];
    expect(summary).toMatch(/^[A-Z].*\.$/);
    expect(Object.keys(schema.properties)).toEqual(expect.arrayContaining([...schema.required, ...places]));
    expect(schema.required).toEqual(expect.arrayContaining([...places]));
    if (confirm !== undefined) {
      expect(kind).toBe('act');
      expect(schema.required).toContain(confirm.type);
    }
    if (before !== undefined) expect(commands[before as CommandName].kind).not.toBe('act');
    expect(examples.length).toBeGreaterThan(0);
    for (const words of examples) expect(parsed(`${name} ${words}`)).toHaveProperty('order.name', name);
  });

  it('keeps of an answer that somebody records only that there was one', () => {
    const given = { consumer: 'notifications', answer: { id: 'canary' } };
    expect(recordedArguments(commands['calls record'], given)).toEqual({
      consumer: 'notifications',
      answer: '(not kept)',
    });
  });
});

describe('the documents', () => {
  const documents = [
    'README.md',
    ...['docs', 'docs/runbooks'].flatMap((folder) =>
      readdirSync(folder)
        .filter((name) => name.endsWith('.md'))
        .map((name) => `${folder}/${name}`),
    ),
  ];
  const lines = documents.flatMap((document) =>
    [...readFileSync(document, 'utf8').matchAll(/npm run ops -- ([^`\n]*)/g)].map(([, words = '']) => ({
      document,
      words: words.replace(/\s+#.*$/, '').trim(),
    })),
  );

  it.each(lines)('$document: npm run ops -- $words', ({ words }) => {
    // A placeholder is a line to complete, not one to copy.
    if (/^<|…\s*$/.test(words)) return;
    expect(() => parsed(words)).not.toThrow();
  });

  it('say in the runbooks what to type, and in operations.md every command', () => {
    const named = (document: string): string[] =>
      lines.filter((line) => line.document === document).map(({ words }) => words);
    for (const runbook of ['parked', 'blocked', 'held', 'unroutable', 'restore', 'dead-letters', 'lag']) {
      expect(named(`docs/runbooks/${runbook}.md`).length, runbook).toBeGreaterThan(0);
    }
    const told = named('docs/operations.md');
    for (const name of commandNames) {
      expect(
        told.some((words) => `${words} `.startsWith(`${name} `)),
        name,
      ).toBe(true);
    }
  });
});
