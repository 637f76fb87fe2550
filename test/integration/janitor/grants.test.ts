import { beforeAll, describe, expect, it } from 'vitest';
import { testDatabase } from '../../support/database.ts';
import { LOGINS, type TestUser } from '../../support/logins.ts';
import { installCatalogue } from '../../support/outbox.ts';

const database = await testDatabase();
beforeAll(() => installCatalogue(database.pool('sealed_migrator')));

const CALLS = {
  outbox_janitor: [
    `select outbox.begin_walk('deliveries', '1 hour')`,
    `select * from outbox.prune(0, '1 day', 1)`,
    `select * from outbox.prune_unrouted('00000000-0000-0000-0000-000000000000', '1 day', 1)`,
    'select from outbox.walk',
  ],
  outbox_archiver: [
    `select * from outbox.archivable(0, '1 day', 1)`,
    `select * from outbox.archivable_unrouted('00000000-0000-0000-0000-000000000000', '1 day', 1)`,
  ],
  inbox_janitor: [
    'select inbox.pruned_consumers()',
    `select inbox.begin_walk('c', '1 hour')`,
    `select * from inbox.prune('c', '00000000-0000-0000-0000-000000000000', '1 day', 1)`,
    `select inbox.prune_counted('1 day', 1)`,
    `select inbox.windows_beyond('1 day')`,
    'select from inbox.walk',
  ],
  sample_janitor: [`select sample.prune_idempotency('1 day', 1)`],
} as const;
type JanitorRole = keyof typeof CALLS;
const ROLES = Object.keys(CALLS) as JanitorRole[];

const FORBIDDEN = '42501';
const FOR_NOBODY = [
  `select * from outbox.prunable(0, '1 day', 1)`,
  `select * from outbox.prunable_unrouted('00000000-0000-0000-0000-000000000000', '1 day', 1, false)`,
  'select outbox.replay_reads_events()',
  'select outbox.uuid_at(now())',
  'select inbox.uuid_at(now())',
  `update outbox.walk set mark = '0'`,
  'delete from outbox.walk',
  'insert into inbox.walk default values',
  'update inbox.walk set sweeping = true',
  'delete from inbox.processed_event',
  'delete from sample.idempotency',
];

async function refused(user: TestUser, statements: readonly string[]): Promise<string[]> {
  const client = await database.client(user);
  const others: string[] = [];
  for (const sql of statements) {
    await client.query('begin');
    await client.query(sql).then(
      () => others.push(`done: ${sql}`),
      (error: unknown) => {
        const { code } = error as { code: string };
        if (code !== FORBIDDEN) others.push(`${code}: ${sql}`);
      },
    );
    await client.query('rollback');
  }
  await client.end();
  return others;
}

describe.each(LOGINS)('$user', ({ user, roles }) => {
  it('prunes and archives only by the role that is for it', async () => {
    const own = roles as readonly string[];
    // The monitor may look how far the walk is.
    const looking = own.includes('outbox_monitor') ? ['select from outbox.walk'] : [];
    const others = ROLES.filter((role) => !own.includes(role)).flatMap((role) => CALLS[role]);
    expect(
      await refused(
        user,
        others.filter((sql) => !looking.includes(sql)),
      ),
    ).toEqual([]);
    expect(await refused(user, FOR_NOBODY)).toEqual([]);
    for (const role of ROLES.filter((it) => own.includes(it))) {
      expect(await refused(user, CALLS[role])).toEqual(CALLS[role].map((sql) => `done: ${sql}`));
    }
  });
});
