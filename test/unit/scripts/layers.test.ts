import { describe, expect, test } from 'vitest';
import { layerViolations } from '../../../scripts/check/layers.ts';

/** Reasons for one file with one line of source. */
function reasons(file: string, source: string): string[] {
  return layerViolations(new Map([[file, source]])).map(({ reason }) => reason);
}

describe('imports point downwards', () => {
  test.each([
    ['functions/relay/index.ts', "import { a } from '../../shared/outbox/index.ts';"],
    ['functions/sample/api/index.ts', "import { catalogue } from '../catalogue/index.ts';"],
    ['functions/sample/api/index.ts', "import { functionKeyring } from '../../keyring.ts';"],
    ['functions/migrate/index.ts', "import { definition } from '../sample/catalogue/definition.ts';"],
    ['shared/outbox/append.ts', "import { b } from './errors.ts';"],
    ['shared/outbox/append.ts', "import { b } from '../errors/index.ts';"],
    ['shared/inbox/consumer.ts', "import middy from '@middy/core';"],
    ['shared/events/catalogue.ts', "import { s } from '../sealing/index.ts';"],
    ['infra/app.ts', "import { App } from 'aws-cdk-lib';"],
    ['infra/stacks/a.ts', "import { x } from '../../functions/sample/catalogue/consumers.ts';"],
    ['test/unit/a.test.ts', "import { c } from '../../shared/outbox/relay/pack.ts';"],
    ['vitest.config.ts', "import { defineConfig } from 'vitest/config';"],
  ])('%s may: %s', (file, source) => {
    expect(reasons(file, source)).toEqual([]);
  });

  test.each([
    ['shared/outbox/a.ts', "import { h } from '../../functions/relay/index.ts';", /shared\/ may import only/],
    ['functions/relay/index.ts', "import { App } from '../../infra/app.ts';", /functions\/ may import only/],
    ['infra/app.ts', "import { handler } from '../functions/relay/index.ts';", /infra\/ may import only/],
    ['infra/stacks/a.ts', "import { x } from '../../functions/sample/ledger/index.ts';", /infra\/ may import only/],
    ['cli/migrate.ts', "import { x } from '../local/postgres.ts';", /cli\/ may import only/],
    ['functions/relay/index.ts', "import { x } from '../monitor/index.ts';", /of another only its catalogue/],
    ['functions/relay/index.ts', "import { x } from '../../shared/outbox/append.ts';", /one door/],
    ['shared/inbox/a.ts', "import { x } from '../events/envelope.ts';", /one door/],
    ['shared/events/a.ts', "import { x } from '../outbox/index.ts';", /not below/],
    ['shared/outbox/a.ts', "import { x } from '../inbox/index.ts';", /not below/],
    ['shared/sealing/a.ts', "import { x } from '../events/index.ts';", /not below/],
    ['shared/sealing/a.ts', "import { x } from '../retention/index.ts';", /not below/],
    ['shared/outbox/a.ts', "import { App } from 'aws-cdk-lib';", /neither|nothing of Lambda or CDK/],
    ['shared/outbox/a.ts', "import type { SQSEvent } from 'aws-lambda';", /nothing of Lambda or CDK/],
    ['shared/inbox/a.ts', "import { Logger } from '@aws-lambda-powertools/logger';", /nothing of Lambda or CDK/],
    ['functions/relay/index.ts', "import { Stack } from 'aws-cdk-lib/core';", /nothing of CDK/],
    ['shared/new/a.ts', "import { x } from '../errors/index.ts';", /no place in the layers/],
    ['somewhere/a.ts', "import { x } from 'pg';", /no place in the layers/],
  ])('%s may not: %s', (file, source, reason) => {
    expect(reasons(file, source)).toEqual([expect.stringMatching(reason)]);
  });
});

describe('every kind of import counts', () => {
  test.each([
    "import { x } from '../../functions/a.ts';",
    "import type { x } from '../../functions/a.ts';",
    "import '../../functions/a.ts';",
    "export { x } from '../../functions/a.ts';",
    "export * from '../../functions/a.ts';",
    "export type { x } from '../../functions/a.ts';",
    "const x = await import('../../functions/a.ts');",
    "type X = import('../../functions/a.ts').X;",
  ])('%s', (source) => {
    expect(reasons('shared/outbox/a.ts', source)).toHaveLength(1);
  });

  test('a comment or a string does not', () => {
    const source = `// import { x } from '../../functions/a.ts';\nconst s = "import '../../functions/a.ts'";`;
    expect(reasons('shared/outbox/a.ts', source)).toEqual([]);
  });
});

test('names the file, the line and what is imported', () => {
  const source = "import pg from 'pg';\n\nimport { x } from '../../cli/a.ts';\n";
  expect(layerViolations(new Map([['shared/outbox/a.ts', source]]))).toEqual([
    { file: 'shared/outbox/a.ts', line: 3, imports: '../../cli/a.ts', reason: 'shared/ may import only from shared' },
  ]);
});

test('a file that cannot be parsed is an error, not a pass', () => {
  expect(() => reasons('shared/outbox/a.ts', 'import {')).toThrow('shared/outbox/a.ts cannot be parsed');
});
