import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { DOORS } from '../../scripts/package/doors.ts';
import { type Catalogue, catalogueRows, type CatalogueRows } from '../../shared/events/index.ts';
import { emptyDatabase } from '../support/database.ts';
import { type PackageProject, packageProject } from '../support/package-project.ts';

const MINUTE = 60_000;

const database = await emptyDatabase();
const { port, password } = inject('postgres');
const TEST_DATABASE = JSON.stringify({ port, name: database.name, password });

/** What the scenario's last line says. */
async function answerOf(project: PackageProject, script: string) {
  const lines = (await project.run('node', [script], { TEST_DATABASE })).trim().split('\n');
  return JSON.parse(lines.at(-1) ?? '') as Record<string, unknown>;
}

const EVENTS = {
  sequences: ['1', 'rolled back', '2'],
  refused: { code: 'NOT_A_TRANSACTION', name: 'NotATransactionError', ours: true },
  relay: 'drained',
  applied: [1, 2],
  returned: 0,
};

describe('the package, installed in a fresh project on another Node.js', () => {
  let project: PackageProject;
  let catalogue: CatalogueRows;
  beforeAll(async () => {
    project = await packageProject();
    const module = pathToFileURL(join(project.folder, 'src', 'catalogue.mjs')).href;
    const { definition } = (await import(module)) as { readonly definition: Catalogue };
    catalogue = catalogueRows(definition);
  }, 4 * MINUTE);
  afterAll(() => project.remove());

  it('migrates a database by its command', { timeout: MINUTE }, async () => {
    const env = {
      DATABASE_HOST: '127.0.0.1',
      DATABASE_PORT: String(port),
      DATABASE_NAME: database.name,
      DATABASE_USER: 'sealed_migrator',
      DATABASE_AUTH: 'password',
      DATABASE_PASSWORD: password,
    };
    expect(await project.run('node', ['node_modules/.bin/sealed-outbox', 'migrate'], env)).toMatch(/[1-9]\d* applied/);
    const owner = await database.client('sealed_migrator');
    await owner.query(readFileSync(join(project.folder, 'migrations', '0001_shop.sql'), 'utf8'));
    await owner.query('grant usage on schema shop to sealed_writer, sealed_analytics');
    await owner.query('grant select, insert on all tables in schema shop to sealed_writer, sealed_analytics');
    await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(catalogue)]);
  });

  it('has the guides, and the runbooks that alarms name, with links that lead somewhere', () => {
    const installed = join(project.folder, 'node_modules', 'sealed-outbox');
    const documents = readdirSync(installed, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.md') && !path.includes('node_modules'))
      .map((path) => [path, readFileSync(join(installed, path), 'utf8')] as const);
    const broken = documents.flatMap(([path, text]) =>
      [...text.matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)]
        .map(([, target = '']) => join(installed, path, '..', target))
        .filter((target) => !existsSync(target)),
    );
    expect(broken).toEqual([]);
    const paths = documents.map(([path]) => path.replaceAll('\\', '/'));
    expect(paths).toEqual(expect.arrayContaining(['README.md', 'docs/consumer.md', 'docs/runbooks/parked.md']));
  });

  it('by import: appends in an ORM’s transaction, relays and consumes', { timeout: 2 * MINUTE }, async () => {
    const answer = await answerOf(project, 'import.mjs');
    expect(answer).toMatchObject({
      shop: { sequence: '1', again: '23505', parcels: [{ items: 3 }] },
      events: EVENTS,
    });
    expect(answer['node']).not.toBe(process.versions.node);
  });

  it('by require: the same doors, events, and a stack', { timeout: 2 * MINUTE }, async () => {
    const answer = await answerOf(project, 'require.cjs');
    expect(answer).toMatchObject({ events: EVENTS, stack: { functions: 4, queues: 2 } });
    expect(Object.values(answer['doors'] as object).every((names) => names > 0)).toBe(true);
  });

  it('has types that are whole, for import, require and bundlers', { timeout: 2 * MINUTE }, async () => {
    // The constructs' are checked with the example: CDK's own are not whole under all of these.
    const doors = Object.keys(DOORS).filter((door) => door !== 'sealed-outbox/infra');
    const lines = doors.map((door, index) => `import * as door${index} from '${door}';\nvoid door${index};`);
    for (const name of ['a.mts', 'b.cts', 'c.ts']) writeFileSync(join(project.folder, name), lines.join('\n'));
    const strict = '--ignoreConfig --noEmit --strict --exactOptionalPropertyTypes --skipLibCheck false --types node';
    const options = `${strict} --target es2024`.split(' ');
    await Promise.all([
      project.compile([...options, '--module', 'node16', 'a.mts', 'b.cts']),
      project.compile([...options, '--module', 'esnext', '--moduleResolution', 'bundler', 'c.ts']),
    ]);
  });

  it('synthesises its functions into an existing stack, each with its code', { timeout: 2 * MINUTE }, async () => {
    await project.run('node', ['synth.mjs']);
    const assembly = join(project.folder, 'cdk-import');
    const folders = readdirSync(assembly).filter((name) => existsSync(join(assembly, name, 'index.mjs')));
    // Checkout and shipping are the shop's; relay, monitor and migrate come bundled.
    expect(folders).toHaveLength(5);
    const migrate = folders.find((name) => existsSync(join(assembly, name, 'catalogue.json')));
    expect(JSON.parse(readFileSync(join(assembly, migrate!, 'catalogue.json'), 'utf8'))).toEqual(catalogue);
    expect(readdirSync(join(assembly, migrate!, 'migrations'))).toEqual(['inbox', 'outbox', 'vault']);
  });

  it('synthesises a topic on which its alarms may publish', { timeout: MINUTE }, async () => {
    if (!existsSync(join(project.folder, 'cdk-import'))) await project.run('node', ['synth.mjs']);
    const template = readFileSync(join(project.folder, 'cdk-import', 'Shop.template.json'), 'utf8');
    const { Resources } = JSON.parse(template) as { Resources: Record<string, { Type: string; Properties: object }> };
    const policies = Object.values(Resources).filter(({ Type }) => Type === 'AWS::SNS::TopicPolicy');
    // A policy of one's own takes the place of SNS's, which lets every alarm of the account publish.
    expect(policies.map(({ Properties }) => Properties)).toEqual([
      expect.objectContaining({
        PolicyDocument: expect.objectContaining({
          Statement: expect.arrayContaining([
            expect.objectContaining({
              Effect: 'Allow',
              Action: 'sns:Publish',
              Principal: { Service: 'cloudwatch.amazonaws.com' },
              Condition: { StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } } },
            }),
          ]),
        }),
      }),
    ]);
  });
});
