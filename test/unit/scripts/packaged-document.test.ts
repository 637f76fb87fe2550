import { expect, it } from 'vitest';
import { packagedDocument } from '../../../scripts/package/documents.ts';

const included = new Set(['library.md', 'consumer.md', 'runbooks/held.md']);

it.each([
  ['a guide beside it', '[c](consumer.md#order)', 'library.md', 'docs/library.md', '[c](consumer.md#order)'],
  ['a guide, from the README', '[c](consumer.md#order)', 'library.md', 'README.md', '[c](docs/consumer.md#order)'],
  [
    'a guide, from a runbook',
    '[c](../consumer.md)',
    'runbooks/held.md',
    'docs/runbooks/held.md',
    '[c](../consumer.md)',
  ],
  ['a runbook', '[h](runbooks/held.md)', 'consumer.md', 'docs/consumer.md', '[h](runbooks/held.md)'],
  ['code', 'see [`x`](../shared/x.ts) there', 'consumer.md', 'docs/consumer.md', 'see `x` there'],
  ['what is left out', '[why](decisions/0001.md)', 'consumer.md', 'docs/consumer.md', 'why'],
  ['a place in itself', '[o](#order)', 'consumer.md', 'docs/consumer.md', '[o](#order)'],
  ['another site', '[a](https://a.example/b)', 'consumer.md', 'docs/consumer.md', '[a](https://a.example/b)'],
])('a link of a document of the package to %s', (_what, text, from, to, expected) => {
  expect(packagedDocument(text, from, to, included)).toBe(expected);
});
