import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type pg from 'pg';
import { afterAll, describe, expect, it } from 'vitest';
import { migrate, migrationScript, pendingMigrations, readMigrations } from '../../shared/database/index.ts';
import { emptyDatabase } from '../support/database.ts';

const root = await mkdtemp(join(tmpdir(), 'sealed-outbox-migrate-'));
afterAll(() => rm(root, { recursive: true }));

/** A directory of migrations; each call makes a new one. */
let made = 0;
async function directoryWith(files: Readonly<Record<string, string>>): Promise<string> {
  const directory = join(root, String((made += 1)));
  for (const [name, sql] of Object.entries(files)) {
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), sql);
  }
  return directory;
}

const filesOf = async (files: Readonly<Record<string, string>>, areas: readonly string[] = ['a']) =>
  readMigrations(await directoryWith(files), areas);

const database = await emptyDatabase();

/** A connection of its own to the database, which is emptied before: that takes a twentieth of the time of another one. */
async function emptyClient(): Promise<pg.Client> {
  const client = await database.client('sealed_migrator');
  await client.query(`set client_min_messages = warning;
    drop schema if exists outbox, inbox, vault, sample, sealed_outbox, public cascade;
    create schema public`);
  return client;
}

async function exists(client: pg.Client, name: string): Promise<boolean> {
  const { rows } = await client.query('select to_regclass($1) is not null as there', [name]);
  return rows[0].there;
}

const recorded = async (client: pg.Client): Promise<string[]> => {
  const { rows } = await client.query(
    `select area || '/' || number as name from sealed_outbox.migration order by applied_at, area, number`,
  );
  return rows.map((row) => row.name);
};

const ONE = { 'a/0001_one.sql': 'create table one (n int);' };
const TWO = { ...ONE, 'a/0002_two.sql': 'create table two (n int);' };

describe('the migrations of this repository', () => {
  it('are applied in order by a user that is no superuser, each file reported before it runs, and once', async () => {
    const client = await emptyClient();
    const { rows } = await client.query('select rolsuper from pg_roles where rolname = current_user');
    expect(rows).toEqual([{ rolsuper: false }]);
    const migrations = await readMigrations('migrations', ['outbox', 'inbox', 'vault', 'sample']);
    const begun: string[] = [];
    const report = await migrate(client, migrations, (name) => begun.push(name));
    expect(begun).toEqual(report.applied);
    expect(report).toMatchObject({ present: 0, newer: [] });
    expect(report.applied).toHaveLength(migrations.length);
    expect(report.applied.slice(0, 2)).toEqual(['outbox/0001_roles', 'outbox/0002_tables']);
    expect(await recorded(client)).toHaveLength(migrations.length);

    expect(await migrate(client, migrations)).toEqual({ applied: [], present: migrations.length, newer: [] });
    expect(await pendingMigrations(client, migrations)).toEqual([]);
    expect((await client.query('select current_user as now')).rows).toEqual([{ now: 'sealed_migrator' }]);
  });

  it.each(['outbox', 'inbox', 'vault'])('install apart: %s alone in a database of its own', async (area) => {
    const alone = await emptyClient();
    const migrations = await readMigrations('migrations', [area]);
    expect((await migrate(alone, migrations)).applied).toHaveLength(migrations.length);
    const { rows } = await alone.query(
      `select nspname from pg_namespace where nspname in ('outbox', 'inbox', 'vault', 'sample')`,
    );
    expect(rows).toEqual([{ nspname: area }]);
  });

  it('install one area after the other, and report only on those that were asked for', async () => {
    const both = await emptyClient();
    const inbox = await readMigrations('migrations', ['inbox']);
    await migrate(both, inbox);
    const report = await migrate(both, await readMigrations('migrations', ['outbox']));
    expect(report).toMatchObject({ present: inbox.length, newer: [] });
    expect(report.applied.every((name) => name.startsWith('outbox/'))).toBe(true);
  });

  it('can be run as a script by any tool, and are then found done', async () => {
    const other = await emptyClient();
    const migrations = await readMigrations('migrations', ['outbox', 'inbox']);
    await other.query(migrationScript(await pendingMigrations(other, migrations)));
    expect(await migrate(other, migrations)).toEqual({ applied: [], present: migrations.length, newer: [] });
    expect(await exists(other, 'outbox.delivery')).toBe(true);
  });
});

describe('a migrator', () => {
  it('refuses a file that changed after it was applied, names it and applies nothing', async () => {
    const client = await emptyClient();
    await migrate(client, await filesOf(ONE));
    const changed = { 'a/0001_one.sql': 'create table one (n bigint);', 'a/0002_two.sql': TWO['a/0002_two.sql'] };
    await expect(migrate(client, await filesOf(changed))).rejects.toMatchObject({
      code: 'MIGRATION_CHANGED',
      message: expect.stringMatching(/^a\/0001_one changed .* Nothing was applied/),
    });
    await expect(pendingMigrations(client, await filesOf(changed))).rejects.toMatchObject({
      code: 'MIGRATION_CHANGED',
    });
    expect(await exists(client, 'two')).toBe(false);
    // The lock is free again.
    expect((await migrate(client, await filesOf(TWO))).applied).toEqual(['a/0002_two']);
  });

  it.each([
    ['a gap', { 'a/0001_one.sql': '', 'a/0003_three.sql': '' }, '0003_three'],
    ['a number twice', { 'a/0001_one.sql': '', 'a/0001_two.sql': '' }, '0001_two'],
    ['a start above one', { 'a/0002_two.sql': '' }, '0002_two'],
    ['a name without number', { 'a/tables.sql': '' }, 'tables'],
    ['a number of three digits', { 'a/001_one.sql': '' }, '001_one'],
    ['capitals', { 'a/0001_One.sql': '' }, '0001_One'],
  ])('refuses %s', async (_about, files, name) => {
    await expect(filesOf(files)).rejects.toMatchObject({
      code: 'MIGRATION_FILES',
      message: expect.stringContaining(name),
    });
  });

  it.each(['missing', '../a', ''])('refuses the area %j', async (area) => {
    await expect(filesOf(ONE, [area])).rejects.toMatchObject({
      code: 'MIGRATION_FILES',
      message: expect.stringContaining(`"${area}"`),
    });
  });

  it('leaves what is newer than its files alone, and says so: a rolled-back deployment runs the old one', async () => {
    const client = await emptyClient();
    await migrate(client, await filesOf(TWO));
    expect(await migrate(client, await filesOf(ONE))).toEqual({ applied: [], present: 2, newer: ['a/0002_two'] });
    expect(await exists(client, 'two')).toBe(true);
  });

  it('waits for another one and finds its work done', async () => {
    const first = await emptyClient();
    const second = await database.client('sealed_migrator');
    // Without the lock the second would start on the first file while the first one is in it.
    const files = await filesOf({
      'a/0001_one.sql': 'create table one (n int); select pg_sleep(0.2);',
      'a/0002_two.sql': 'create table two (n int);',
    });
    const reports = await Promise.all([migrate(first, files), migrate(second, files)]);
    const all = ['a/0001_one', 'a/0002_two'];
    expect(reports).toContainEqual({ applied: all, present: 0, newer: [] });
    expect(reports).toContainEqual({ applied: [], present: 2, newer: [] });
  });

  it('rolls a failing file back, keeps those before it, and goes on after it is mended', async () => {
    const client = await emptyClient();
    const broken = {
      ...TWO,
      'a/0002_two.sql': 'create table two (n int); select no_such_column;',
      'a/0003_three.sql': 'create table three (n int);',
    };
    await expect(migrate(client, await filesOf(broken))).rejects.toMatchObject({
      code: 'MIGRATION_FAILED',
      message: expect.stringMatching(
        /^a\/0002_two failed: column "no_such_column" does not exist\. It was rolled back/,
      ),
    });
    expect(await recorded(client)).toEqual(['a/1']);
    expect([await exists(client, 'one'), await exists(client, 'two'), await exists(client, 'three')]).toEqual([
      true,
      false,
      false,
    ]);

    const mended = { ...broken, 'a/0002_two.sql': TWO['a/0002_two.sql'] };
    expect((await migrate(client, await filesOf(mended))).applied).toEqual(['a/0002_two', 'a/0003_three']);
  });

  it('keeps the reason when the connection is lost in the middle of a file', async () => {
    const client = await emptyClient();
    const files = await filesOf({ 'a/0001_one.sql': 'select pg_terminate_backend(pg_backend_pid());' });
    await expect(migrate(client, files)).rejects.toMatchObject({
      code: 'MIGRATION_FAILED',
      message: expect.stringMatching(/^a\/0001_one failed: terminating connection/),
    });
  });

  it.each(['', '-- no transaction\n'])('does not keep the role that a file took: %j', async (head) => {
    const client = await emptyClient();
    // Any role that this user may take; it is on the server already.
    const files = await filesOf({ ...ONE, 'a/0002_role.sql': `${head}set role outbox_owner` });
    expect((await migrate(client, files)).applied).toHaveLength(2);
    expect((await client.query('select current_user as now')).rows).toEqual([{ now: 'sealed_migrator' }]);
  });

  it('runs a file outside a transaction that says so', async () => {
    const client = await emptyClient();
    const sql = 'create index concurrently one_n on one (n);';
    await expect(migrate(client, await filesOf({ ...ONE, 'a/0002_index.sql': sql }))).rejects.toMatchObject({
      code: 'MIGRATION_FAILED',
      message: expect.stringContaining('cannot run inside a transaction block'),
    });
    const marked = await filesOf({ ...ONE, 'a/0002_index.sql': `-- no transaction\n${sql}` });
    expect((await migrate(client, marked)).applied).toEqual(['a/0002_index']);
    expect(await exists(client, 'one_n')).toBe(true);
    expect(await recorded(client)).toEqual(['a/1', 'a/2']);
  });

  it('says that a failed file outside a transaction may be there in part', async () => {
    const client = await emptyClient();
    const files = await filesOf({
      'a/0001_index.sql': '-- no transaction\ncreate index concurrently i on nowhere (n)',
    });
    await expect(migrate(client, files)).rejects.toThrow('may have been applied in part');
    expect(await recorded(client)).toEqual([]);
  });

  it('knows what is pending without touching the database', async () => {
    const client = await emptyClient();
    const files = await filesOf(TWO);
    expect(await pendingMigrations(client, files)).toEqual(files);
    expect(await exists(client, 'sealed_outbox.migration')).toBe(false);
    await migrate(client, await filesOf(ONE));
    expect((await pendingMigrations(client, files)).map(({ name }) => name)).toEqual(['two']);
  });
});
