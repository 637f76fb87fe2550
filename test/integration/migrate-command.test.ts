import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { describe, expect, inject, it } from 'vitest';
import { definition } from '../../functions/sample/catalogue/definition.ts';
import { emptyDatabase } from '../support/database.ts';

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command as its own process, with nothing of this one's environment but what Node needs. */
async function command(words: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { env: { PATH: process.env['PATH'] ?? '', ...env }, timeout: 60_000 };
    execFile(process.execPath, ['cli/migrate.ts', ...words], options, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
    });
  });
}

const database = await emptyDatabase();
const { port, password } = inject('postgres');
const env = {
  DATABASE_HOST: '127.0.0.1',
  DATABASE_PORT: String(port),
  DATABASE_NAME: database.name,
  DATABASE_USER: 'sealed_migrator',
  DATABASE_AUTH: 'password',
  DATABASE_PASSWORD: password,
};

const connecting = (limit: string): string => `[{"user":"a","roles":["outbox_writer"],"connections":${limit}}]`;

describe('npm run migrate', () => {
  it('prints what is pending, applies it once, and then finds nothing to do', async () => {
    const client = await database.client('sealed_migrator');
    const printed = await command(['--print', '--areas', 'inbox'], env);
    expect(printed).toMatchObject({ code: 0, stderr: '' });
    expect(printed.stdout).toContain('create schema inbox');
    expect((await client.query(`select from pg_namespace where nspname in ('inbox', 'sealed_outbox')`)).rowCount).toBe(
      0,
    );

    const first = await command([], env);
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout.split('\n')).toEqual(
      expect.arrayContaining(['  applying outbox/0001_roles', '  applying inbox/0001_tables']),
    );
    expect(first.stdout).toMatch(/^\d+ applied, 0 were there$/m);

    // The sample's tables come only when they are asked for.
    const { rows } = await client.query(
      `select nspname from pg_namespace where nspname in ('outbox', 'inbox', 'sample') order by 1`,
    );
    expect(rows.map((row) => row.nspname)).toEqual(['inbox', 'outbox']);

    const second = await command([], env);
    expect(second).toMatchObject({ code: 0 });
    expect(second.stdout).toMatch(/^0 applied, \d+ were there$/m);
    expect(await command(['--print'], env)).toEqual({ code: 0, stdout: '', stderr: '' });

    const sample = await command(['--areas', 'outbox, inbox, sample'], env);
    expect(sample.stdout).toContain('  applying sample/0001_invoices\n');
  });

  it('prints what a deployment would do after the migrations, for whom nothing that is deployed may', async () => {
    const client = await database.client('sealed_migrator');
    const user = `printed_${randomBytes(6).toString('hex')}`;
    const logins = JSON.stringify([{ user, roles: ['outbox_writer'], connections: 3 }]);
    const words = ['--print', '--areas', 'outbox,inbox,sample', '--logins', logins, '--cluster', 'cluster-1'];
    const printed = await command([...words, '--catalogue', 'functions/sample/catalogue/definition.ts'], env);
    expect(printed).toMatchObject({ code: 0, stderr: '' });
    const state = async () => {
      const { rows } = await client.query(
        `select (select cluster from outbox.installation) as cluster, (select count(*)::integer from outbox.route) as routes,
                (select rolconnlimit from pg_roles where rolname = $1) as connections,
                (select count(*)::integer from pg_roles where rolname = $1 and pg_has_role(oid, 'outbox_writer', 'member')) as members`,
        [user],
      );
      return rows[0];
    };
    try {
      expect(await state()).toEqual({ cluster: null, routes: 0, connections: null, members: 0 });
      await client.query(printed.stdout);
      expect(await state()).toEqual({
        cluster: 'cluster-1',
        routes: Object.values(definition.events).reduce((sum, { destinations }) => sum + destinations.length, 0),
        connections: 3,
        members: 1,
      });
    } finally {
      await client.query(`drop role if exists ${user}`);
    }
    expect(await command(['--logins', logins], env)).toMatchObject({ code: 2 });
    for (const wrong of ['[{"user":7}]', connecting('"x"'), connecting('0'), connecting('1.5'), connecting('null')]) {
      expect(await command(['--print', '--logins', wrong], env)).toMatchObject({ code: 2, stdout: '' });
    }
  });

  it('prints the classes of sealed data that a login is given, and takes others away', async () => {
    const client = await database.client('sealed_migrator');
    const user = `printed_${randomBytes(6).toString('hex')}`;
    const areas = ['--areas', 'outbox,inbox,vault'];
    const printed = async (vault: object | undefined) => {
      const logins = JSON.stringify([{ user, roles: ['vault_writer'], vault }]);
      const { code, stdout } = await command(['--print', ...areas, '--logins', logins], env);
      expect(code).toBe(0);
      await client.query(stdout);
      const { rows } = await client.query(
        'select class, may_create as creates from vault.class_access where login = $1 order by class',
        [user],
      );
      return rows;
    };
    try {
      expect(await printed({ reads: ['contact'], creates: ['bank', 'tax'] })).toEqual([
        { class: 'bank', creates: true },
        { class: 'contact', creates: false },
        { class: 'tax', creates: true },
      ]);
      expect(await printed(undefined)).toEqual([]);
    } finally {
      await client.query(`drop role if exists ${user}`);
    }
    const wrong = JSON.stringify([{ user, roles: [], vault: { reads: 'contact' } }]);
    expect(await command(['--print', ...areas, '--logins', wrong], env)).toMatchObject({ code: 2 });
  });

  it('explains itself without a database', async () => {
    const { code, stdout } = await command(['--help'], {});
    expect(code).toBe(0);
    expect(stdout).toContain('--areas');
    expect(stdout).toContain('DATABASE_HOST');
  });

  it('ends with 2 for a word that it does not know', async () => {
    const { code, stderr } = await command(['--area', 'outbox'], env);
    expect(code).toBe(2);
    expect(stderr).toContain('--area');
  });

  it.each([
    ['a variable that is missing', [], { ...env, DATABASE_NAME: '' }, /^DATABASE_CONFIG: DATABASE_NAME is not set/],
    ['an area that is not there', ['--areas', 'outbox,vaults'], env, /^MIGRATION_FILES: There is no area "vaults"/],
    [
      'a wrong password',
      [],
      { ...env, DATABASE_PASSWORD: 'wrong-one' },
      /^DATABASE_UNREACHABLE: .*password authentication failed/,
    ],
    [
      'a server that is away',
      [],
      { ...env, DATABASE_PORT: '1' },
      /^DATABASE_UNREACHABLE: .*ECONNREFUSED.*Nothing was applied/,
    ],
  ])('says what is wrong and ends with 1: %s', async (_about, words, environment, sentence) => {
    const { code, stderr } = await command(words, environment);
    expect(code).toBe(1);
    expect(stderr).toMatch(sentence);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(stderr).not.toContain('wrong-one');
  });
});
