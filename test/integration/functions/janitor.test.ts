import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Context } from 'aws-lambda';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { folderArchive, readArchive } from '../../../shared/archive/index.ts';
import { folderErasureLog } from '../../../shared/sealing/index.ts';
import { allOf } from '../../support/archive-conformance.ts';
import { testDatabase } from '../../support/database.ts';
import type { TestUser } from '../../support/logins.ts';
import { erasable, erasingShop } from '../../support/erasures.ts';
import { append, installCatalogue, thing } from '../../support/outbox.ts';
import { letAge, publishAll, remaining, uuidAt } from '../../support/retention.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-archive-'));
afterAll(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true, force: true });
});

function invocation(remainingMs: number): Context {
  return {
    getRemainingTimeInMillis: () => remainingMs,
    awsRequestId: 'r',
    functionName: 'janitor',
  } as unknown as Context;
}

/** The function as Lambda loads it, with these variables. */
async function loaded(archive: string, user: TestUser = 'sealed_janitor', more: Readonly<Record<string, string>> = {}) {
  const config = database.config(user);
  const variables = {
    DATABASE_HOST: config.host,
    DATABASE_PORT: String(config.port),
    DATABASE_NAME: config.database,
    DATABASE_USER: config.user,
    DATABASE_AUTH: 'password',
    DATABASE_PASSWORD: 'password' in config ? config.password : '',
    OUTBOX_INSTALLATION: 'test',
    JANITOR_ARCHIVE: archive,
    JANITOR_ALSO: '{"sample.prune_idempotency": 7}',
    JANITOR_REST: '0.001',
    ...more,
  };
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  vi.resetModules();
  return import('../../../functions/janitor/index.ts');
}

/** What is written to standard output as metrics: name, value, area. */
function recordMetrics(): [string, number, string | undefined][] {
  const metrics: [string, number, string | undefined][] = [];
  vi.spyOn(process.stdout, 'write').mockImplementation((line) => {
    const { _aws, Area, ...rest } = JSON.parse(String(line));
    const [{ Metrics }] = _aws.CloudWatchMetrics;
    for (const { Name } of Metrics) metrics.push([Name, rest[Name], Area]);
    return true;
  });
  return metrics;
}

describe('the function', () => {
  it('archives and prunes all areas, and reports metrics', async () => {
    await installCatalogue(owner);
    await append(database.pool('sealed_writer'), thing('a'), thing('b'));
    await publishAll(owner);
    await letAge(owner, 15);
    const old = Date.now() - 40 * 86_400_000;
    await owner.query('insert into inbox.processed_event values ($1, $2, $3)', [
      'ledger',
      uuidAt(old, 1),
      new Date(old),
    ]);
    await owner.query(
      `insert into sample.idempotency (key, request_sha256, created_at) values ('k', sha256(''), now() - interval '8 days')`,
    );
    const { handler } = await loaded(`file://${directory}`);
    const metrics = recordMetrics();
    const told = await handler({}, invocation(300_000)).finally(() => vi.restoreAllMocks());
    expect(told.map(({ walk, removed, ended }) => [walk, Object.values(removed)[0], ended])).toEqual([
      ['deliveries', 2, 'end'],
      ['unrouted', 0, 'end'],
      ['processed by ledger', 1, 'end'],
      ['sample.prune_idempotency', 1, 'end'],
    ]);
    expect(await remaining(owner)).toEqual({ events: [], deliveries: [] });
    expect(await allOf(readArchive(folderArchive(directory)))).toHaveLength(2);
    expect(metrics).toEqual(
      expect.arrayContaining([
        ['Archived', 2, undefined],
        ['Pruned', 4, 'outbox'],
        ['PruneLag', 0, 'outbox'],
        ['Pruned', 1, 'inbox'],
        ['PruneLag', 0, 'inbox'],
      ]),
    );
  });

  it('fails, so that it is seen, where events cannot be archived, and prunes the rest', async () => {
    await append(database.pool('sealed_writer'), thing('a'));
    await publishAll(owner);
    await letAge(owner, 15);
    await owner.query(
      `insert into sample.idempotency (key, request_sha256, created_at) values ('k', sha256(''), now() - interval '8 days')`,
    );
    const { handler } = await loaded(`file://${join(directory, 'a-file')}`);
    writeFileSync(join(directory, 'a-file'), 'no folder');
    const metrics = recordMetrics();
    const run = handler({}, invocation(300_000)).finally(() => vi.restoreAllMocks());
    await expect(run).rejects.toMatchObject({ code: 'JANITOR_FAILED' });
    expect((await remaining(owner)).events).toHaveLength(1);
    expect((await owner.query('select from sample.idempotency')).rowCount).toBe(0);
    expect(metrics.filter(([name, , area]) => name === 'PruneLag' && area === 'outbox')).toEqual([]);
  });

  it('looks after keys where it has a vault; that KMS is away is seen, and old rows go all the same', async () => {
    await owner.query(`select vault.set_access('sealed_rotator', '{}', '{contact}')`);
    const { handler } = await loaded('none', 'sealed_rotator', {
      OUTBOX_KEEP_DAYS: 'none',
      INBOX_KEEP_DAYS: 'none',
      JANITOR_ALSO: '{"public.prune_mine": 7}',
      SEALING_VAULT: 'test',
      SEALING_KEY_ARN: 'arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab',
      AWS_REGION: 'eu-central-1',
      AWS_ENDPOINT_URL_KMS: 'http://127.0.0.1:1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    });
    await owner.query(
      `create table mine as select generate_series(1, 3) as n; grant select, delete on mine to public;
       create function prune_mine(keep interval, page integer) returns integer language sql as
         $$ with gone as (delete from mine returning 1) select count(*)::integer from gone $$`,
    );
    const metrics = recordMetrics();
    const run = handler({ rotate: ['contact'] }, invocation(300_000)).finally(() => vi.restoreAllMocks());
    await expect(run).rejects.toMatchObject({ code: 'JANITOR_FAILED' });
    expect((await owner.query('select from mine')).rowCount).toBe(0);
    expect(metrics).toEqual(expect.arrayContaining([['CanaryFailed', 1, undefined]]));
  });

  it('finishes erasures where it has their log, and says what it did', async () => {
    const shop = await erasingShop(database);
    const person = await shop.customer('C-erased');
    const folder = join(directory, 'erasures');
    const erasure = shop.erasure({ log: folderErasureLog(folder), delaySeconds: 60 });
    await erasure.erase({ subject: { kind: 'customer', id: 'C-erased' } });
    await shop.letPass('2 minutes');
    const { handler } = await loaded('none', 'sealed_eraser', {
      OUTBOX_KEEP_DAYS: 'none',
      INBOX_KEEP_DAYS: 'none',
      JANITOR_ALSO: '{}',
      SEALING_ERASURE_LOG: `file://${folder}`,
      JANITOR_ERASABLE: JSON.stringify(erasable),
      // Of the test before.
      SEALING_VAULT: '',
      SEALING_KEY_ARN: '',
    });
    const metrics = recordMetrics();
    const told = await handler({}, invocation(300_000)).finally(() => vi.restoreAllMocks());
    expect(told.map(({ walk, removed, ended }) => [walk, removed, ended])).toEqual([
      ['erasure', { applied: 0, finished: 1, destroyed: 0, told: 0 }, 'end'],
    ]);
    expect(metrics).toEqual(
      expect.arrayContaining([
        ['ErasuresWaiting', 0, undefined],
        ['ErasuresUnapplied', 0, undefined],
        ['PruneLag', 0, 'erasure'],
      ]),
    );
    expect(await shop.row(person.id)).toMatchObject({ name: null });
    expect(await shop.told(person.id)).toEqual([[1, 'contact', 'tax']]);
  });
});
