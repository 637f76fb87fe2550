import { describe, expect, test } from 'vitest';
import { brokenLinks } from '../../../scripts/check/links.ts';
import { snippetsOf } from '../../../scripts/check/snippets.ts';
import { findingsIn } from '../../../scripts/check/tracked-files.ts';

describe('links between documents', () => {
  const documents = new Map([
    ['README.md', ''],
    ['docs/guide.md', '# The guide\n## What happens when `X` fails?\n## Twice\n## Twice\n'],
  ]);
  const broken = (text: string): string[] =>
    brokenLinks(new Map([...documents, ['README.md', text]]), (path) => path === 'LICENSE' || path === 'docs').map(
      ({ target, reason }) => `${target}: ${reason}`,
    );

  test('those that lead somewhere pass', () => {
    expect(
      broken(
        '# Top\n[a](docs/guide.md) [b](docs/guide.md#what-happens-when-x-fails) [c](#top) [d](docs/guide.md#twice-1) ' +
          '[e](LICENSE) [f](https://example.com/x) [g](mailto:a@example.com) [h](docs/) [i](./docs/guide.md "title")',
      ),
    ).toEqual([]);
  });

  test('a missing file, a missing heading and a broken definition are found', () => {
    expect(broken('[a](docs/other.md)')).toEqual(['docs/other.md: no such file']);
    expect(broken('[a](docs/guide.md#nowhere)')).toEqual(['docs/guide.md#nowhere: no such heading']);
    expect(broken('[ref]: docs/none.md')).toEqual(['docs/none.md: no such file']);
  });

  test('code is not prose', () => {
    expect(broken('```md\n[a](docs/other.md)\n```\n`[a](nowhere.md)`')).toEqual([]);
  });
});

describe('snippets', () => {
  test('are the ts blocks with the line where their code begins', () => {
    const text = 'x\n\n```ts\nconst a = 1;\n```\n```sql\nselect 1\n```\n```ts\nconst b = 2;\nconst c = 3;\n```\n';
    expect(snippetsOf('README.md', text)).toEqual([
      { document: 'README.md', line: 4, code: 'const a = 1;' },
      { document: 'README.md', line: 10, code: 'const b = 2;\nconst c = 3;' },
    ]);
  });
});

describe('lines that tie the project to one machine', () => {
  // Put together here, because the check reads this file too.
  const slash = '/';
  test.each([
    [`see ${slash}home/somebody/project`, 'a path of one machine'],
    [`"${slash}root/.cache"`, 'a path of one machine'],
    [['registry', 'https://example.com'].join('='), 'the address of a registry'],
    [['--index', 'url https://example.com/simple'].join('-'), 'the address of a registry'],
    [`https:${slash}/registry.example.com/pg`, 'the address of a registry'],
    [['"resolved"', ' "https://example.com/pg.tgz"'].join(':'), expect.stringContaining('a download address')],
    [`${'<'.repeat(7)} HEAD`, 'an unresolved merge'],
  ])('%s', (line, reason) => {
    expect(findingsIn('a.txt', `fine\n${line}\n`)).toEqual([{ file: 'a.txt', line: 2, reason }]);
  });

  test.each([
    '/var/task/index.js',
    'https://example.com/home/page',
    'the framework/home',
    'const registry = new Map();',
  ])('%s is fine', (line) => {
    expect(findingsIn('a.txt', line)).toEqual([]);
  });
});
