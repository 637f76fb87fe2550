import { describe, expect, it } from 'vitest';
import { install } from '../../../functions/migrate/install.ts';
import { definition } from '../../../functions/sample/catalogue/definition.ts';
import type { FunctionLogin } from '../../../functions/migrate/logins.ts';
import { testDatabase } from '../../support/database.ts';
import { LOGINS } from '../../support/logins.ts';
import { recordingLog } from '../../support/recorders.ts';

const database = await testDatabase();

async function installed(logins: readonly FunctionLogin[] = LOGINS, cluster?: string) {
  const log = recordingLog();
  const client = await database.client('sealed_migrator');
  const config = database.config('sealed_migrator');
  if (config.auth !== 'password') throw new Error('test databases use passwords');
  const options = { directory: 'migrations', logins, loginAuth: config, catalogue: definition, cluster, log };
  return { client, log, report: await install(client, options) };
}

describe('the migrate function', () => {
  it('reports what it did, and does nothing twice', async () => {
    const first = await installed();
    expect(first.report).toMatchObject({
      applied: [],
      newer: [],
      logins: LOGINS.map(({ user }) => user),
      eventTypes: Object.values(definition.events).flatMap(({ versions }) => Object.keys(versions)).length,
      destinations: Object.keys(definition.destinations),
    });
    expect(first.report.present).toBeGreaterThan(4);
    expect((await installed()).report).toEqual(first.report);
    expect(first.log.lines).toContainEqual(
      expect.objectContaining({ level: 'info', message: 'the database is up to date', fields: first.report }),
    );
  });

  it('started several times at once, works once while the others wait, users and roles included', async () => {
    const logins = Array.from({ length: 8 }, (_, index) => ({ user: `together_${index}`, roles: ['outbox_writer'] }));
    try {
      const runs = await Promise.all(Array.from({ length: 4 }, () => installed(logins)));
      for (const { report } of runs) expect(report).toEqual(runs[0]?.report);
    } finally {
      await database.pool('sealed_migrator').query(`drop role if exists ${logins.map(({ user }) => user).join(', ')}`);
    }
  });

  it('gives each login exactly its classes in the vault, and takes away what is no longer declared', async () => {
    const { client } = await installed();
    const created = async () => {
      const { rows } = await client.query(
        `select login::text, class, may_create from vault.class_access where login in ('sealed_sealer', 'sealed_opener') order by 1, 2`,
      );
      return rows.map(({ login, class: name, may_create }) => `${login} ${may_create ? 'creates' : 'reads'} ${name}`);
    };
    const declare = async (sealer: FunctionLogin['vault'], opener: FunctionLogin['vault']) => {
      const logins: FunctionLogin[] = [
        { user: 'sealed_sealer', roles: ['outbox_writer', 'vault_writer'], ...(sealer && { vault: sealer }) },
        { user: 'sealed_opener', roles: ['inbox_consumer', 'vault_reader'], ...(opener && { vault: opener }) },
      ];
      await installed(logins);
    };
    await declare({ reads: ['tax'], creates: ['contact', 'bank'] }, { reads: ['contact'], creates: [] });
    expect(await created()).toEqual([
      'sealed_opener reads contact',
      'sealed_sealer creates bank',
      'sealed_sealer creates contact',
      'sealed_sealer reads tax',
    ]);
    // What each really sees, and may not do.
    const insert = `insert into vault.branch_key (class, version, kms_key, wrapped) values ($1, 1, 'key', 'bytes')`;
    const sealer = await database.client('sealed_sealer');
    const opener = await database.client('sealed_opener');
    for (const name of ['contact', 'bank']) await sealer.query(insert, [name]);
    await expect(sealer.query(insert, ['tax'])).rejects.toMatchObject({ code: '42501' });
    await expect(sealer.query(insert, ['health'])).rejects.toMatchObject({ code: '42501' });
    await expect(opener.query(insert, ['contact'])).rejects.toMatchObject({ code: '42501' });
    const seen = await opener.query('select class from vault.branch_key');
    expect(seen.rows).toEqual([{ class: 'contact' }]);
    for (const user of [sealer, opener]) {
      await expect(user.query(`select vault.set_access(current_user, '{tax}', '{}')`)).rejects.toMatchObject({
        code: '42501',
      });
    }

    await declare({ reads: ['contact'], creates: [] }, undefined);
    expect(await created()).toEqual(['sealed_sealer reads contact']);
    expect((await opener.query('select class from vault.branch_key')).rows).toEqual([]);
    await expect(sealer.query(insert, ['contact'])).rejects.toMatchObject({ code: '42501' });
  });

  it('installs the routes of the catalogue, so that an event has somewhere to go', async () => {
    const { client } = await installed();
    const { rows } = await client.query(
      'select r.type, d.name from outbox.route r join outbox.destination d on d.number = r.destination order by 1, 2',
    );
    expect(rows).toEqual(
      Object.entries(definition.events)
        .flatMap(([type, { destinations }]) => destinations.map((name) => ({ type, name })))
        .toSorted((a, b) => (`${a.type} ${a.name}` < `${b.type} ${b.name}` ? -1 : 1)),
    );
  });

  it('writes down the cluster once: in a copy the name stays that of the original', async () => {
    const recorded = async () => {
      const { client } = await installed();
      return (await client.query('select cluster from outbox.installation')).rows[0].cluster as string | null;
    };
    expect(await recorded()).toBeNull();
    await installed(LOGINS, "cluster-OF'ORIGINAL");
    await installed(LOGINS, 'cluster-OF-COPY');
    expect(await recorded()).toBe("cluster-OF'ORIGINAL");
  });

  it('runs at a roll-back on a database that is newer, and says so', async () => {
    const { client } = await installed();
    await client.query(
      `insert into sealed_outbox.migration (area, number, name, checksum) values ('outbox', 9999, 'from_tomorrow', 'x')`,
    );
    try {
      const { report, log } = await installed();
      expect(report.newer).toEqual(['outbox/9999_from_tomorrow']);
      expect(log.lines).toContainEqual(expect.objectContaining({ level: 'warn', fields: { newer: report.newer } }));
    } finally {
      await client.query('delete from sealed_outbox.migration where number = 9999');
    }
  });
});
