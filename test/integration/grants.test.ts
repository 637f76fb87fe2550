import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { testDatabase } from '../support/database.ts';
import type { TestUser } from '../support/logins.ts';
import { append, installCatalogue, thing } from '../support/outbox.ts';

const database = await testDatabase();
const RESTRICTED = [
  'sealed_api',
  'sealed_relay',
  'sealed_ledger',
  'sealed_monitor',
  'sealed_janitor',
  'sealed_operator',
  'sealed_replayer',
  'sealed_writer',
] as const satisfies readonly TestUser[];
const clients = new Map<TestUser, pg.Client>();
const as = (user: TestUser): pg.Client => clients.get(user)!;

beforeAll(async () => {
  for (const user of [...RESTRICTED, 'sealed_migrator'] as const) clients.set(user, await database.client(user));
  await installCatalogue(as('sealed_migrator'));
  await append(as('sealed_writer'), thing('1'), thing('1'));
  await as('sealed_ledger').query(`insert into inbox.processed_event values ('c', gen_random_uuid(), now())`);
});

/** Tries a statement in a transaction that is rolled back, and tells how it ended: null or its SQLSTATE. */
async function sqlStateOf(user: TestUser, sql: string): Promise<string | null> {
  const client = as(user);
  await client.query('begin');
  try {
    await client.query(sql);
    return null;
  } catch (error) {
    return (error as { code: string }).code;
  } finally {
    await client.query('rollback');
  }
}

const FORBIDDEN = '42501';
const ANY_EVENT = `'[{"type":"thing.happened","aggregate_type":"thing","aggregate_id":"2","data":{}}]'`;
const OUTBOX = [
  'installation',
  'event_type',
  'destination',
  'route',
  'stream',
  'event',
  'delivery',
  'partition',
  'relay',
  'audit',
  'replay',
  'operator_act',
];
const INBOX = ['consumer', 'processed_event', 'stream_position', 'held_event', 'external_call', 'reset', 'pruned'];
/** Operators' functions over held events, and what they are made of. */
const HELD_ACTS = [
  `select inbox.list_held()`,
  `select inbox.show_held('c', gen_random_uuid())`,
  `select inbox.retry_held('c', gen_random_uuid(), 'r')`,
  `select inbox.skip_held('c', gen_random_uuid(), 'r')`,
  `select inbox.release_held('c', gen_random_uuid(), 'r')`,
  `select inbox.accept_gap('c', 't', 'i', 'r')`,
  `select inbox.begin_act('r')`,
  `select inbox.lock_held('c', gen_random_uuid())`,
  'select from inbox.audit',
  'delete from inbox.audit',
  'insert into inbox.audit default values',
];
/** What only monitor and operator ask. */
const MONITORING = ['select inbox.held_lag()', 'select outbox.lag()'];
const reading = (schema: string, tables: readonly string[]): string[] =>
  tables.map((table) => `select from ${schema}.${table}`);
const writing = (schema: string, tables: readonly string[]): string[] =>
  tables.flatMap((table) => [
    `insert into ${schema}.${table} default values`,
    `delete from ${schema}.${table}`,
    `truncate ${schema}.${table}`,
  ]);
/** Each column by itself, so that a grant of any would be seen; to its default, which needs no right to read it. */
const UPDATES = {
  'outbox.installation': ['source', 'cluster', 'epoch'],
  'outbox.event_type': ['aggregate_type', 'when_parked'],
  'outbox.destination': ['name', 'kind', 'group_id', 'max_bytes'],
  'outbox.route': ['destination'],
  'outbox.stream': ['sequence'],
  'outbox.event': [
    'id',
    'aggregate_type',
    'aggregate_id',
    'sequence',
    'type',
    'schema_version',
    'data',
    'metadata',
    'occurred_at',
  ],
  'outbox.delivery': [
    'event_id',
    'destination',
    'partition',
    'replay',
    'run',
    'bytes',
    'aggregate_key',
    'sequence',
    'xid',
    'created_at',
    'state',
    'due_at',
    'attempts',
    'last_error',
    'published_at',
    'message_id',
  ],
  'outbox.partition': ['number', 'lease_owner', 'lease_token', 'lease_expires_at'],
  'outbox.relay': ['owner', 'slot', 'started_at', 'seen_at', 'ended_at'],
  'outbox.audit': ['actor', 'act', 'detail', 'operator_act'],
  'outbox.operator_act': ['claimed_by', 'request_id', 'command', 'arguments', 'reason', 'outcome', 'detail'],
  'outbox.replay': [
    'destination',
    'scope',
    'per_second',
    'state',
    'walked_to',
    'planned',
    'planned_at',
    'actor',
    'reason',
  ],
} as const;
const updating = (but: readonly string[] = []): string[] =>
  Object.entries(UPDATES).flatMap(([table, columns]) =>
    columns
      .filter((column) => !but.includes(`${table.slice('outbox.'.length)}.${column}`))
      .map((column) => `update ${table} set ${column} = default`),
  );
const without = (statements: readonly string[], allowed: readonly string[]): string[] =>
  statements.filter((statement) => !allowed.includes(statement));

const RELAY_UPDATES = [
  'delivery.state',
  'delivery.due_at',
  'delivery.attempts',
  'delivery.last_error',
  'delivery.published_at',
  'delivery.message_id',
  'partition.lease_owner',
  'partition.lease_token',
  'partition.lease_expires_at',
  'relay.seen_at',
  'relay.ended_at',
];
const ACTS = [
  `select outbox.redrive(1, 'r')`,
  `select outbox.skip(1, 'r')`,
  `select outbox.unblock('queue', 'thing', '1', 'r')`,
  `select outbox.restore('c', 'r')`,
  'select outbox.list_parked()',
  `select outbox.count_replay('queue', '{"aggregate_type": "thing"}')`,
  `select outbox.start_replay('queue', '{"aggregate_type": "thing"}', 1, 'r')`,
  `select outbox.pause_replay(1, 'r')`,
  `select outbox.resume_replay(1, 'r')`,
  `select outbox.cancel_replay(1, 'r')`,
  'select outbox.clear_replay(1)',
  'select outbox.list_replays()',
  `select inbox.reset_consumer('c', '{}', 1, 'r')`,
  `select inbox.end_replay('c', 'r')`,
];
/** What an operator looks at, and what the function writes down. */
const LOOKS = [
  `select outbox.begin_operator_act('a', 'b', 'c', '{}', null)`,
  'select outbox.list_operator_acts()',
  'select outbox.show_installation()',
  'select outbox.list_relays()',
  'select outbox.list_pending()',
  'select outbox.list_blocked()',
  `select outbox.show_aggregate('thing', '1')`,
  'select inbox.list_consumers()',
];
const LOOKS_AT_ONE = [`select outbox.end_operator_act(1, 'done', null)`, 'select outbox.show_parked(1)'];
/** What only a relay does for a replay, and what only the replayer does. */
const REPLAYING = [
  'select outbox.plan_replay(1)',
  'select outbox.finish_replay(1)',
  `select outbox.apply_replay_parking(1, '{}')`,
  `select outbox.apply_replay_parking(1, '{}', '{}', 1)`,
  `select outbox.next_replay(1::smallint)`,
];
const RETURNING = [`select outbox.return_events(1, '[]')`, 'select outbox.end_returning(1)'];
const SET_ASIDE = `select outbox.set_aside(1, 'r')`;
/** What the acts are made of: each would be an act without a lock, a check or an audit. */
const INNER = [
  `select outbox.begin_act('r')`,
  'select outbox.lock_delivery(1)',
  'select outbox.release_chain(1::smallint, gen_random_uuid())',
  'select outbox.release_replay_chain(1, gen_random_uuid())',
  'select outbox.block_behind(1::smallint, gen_random_uuid(), 0, 1)',
  'select outbox.put_tombstone(null)',
  'select outbox.is_behind_parked(null)',
  'select outbox.describe(null)',
  'select outbox.policy_of(gen_random_uuid())',
  `select outbox.plan_deliveries(null, '{}')`,
  `select outbox.change_replay(1, 'a', '{}', 'done', 'r')`,
  `select outbox.replay_destination('queue')`,
  `select outbox.check_scope('{}')`,
  `select outbox.normal_scope('{}')`,
  `select outbox.destination_number('queue')`,
];
const CATALOGUE = ['installation', 'event_type', 'destination', 'route'];
const APPEND = `select outbox.append(${ANY_EVENT})`;
const except = (tables: readonly string[]): string[] => OUTBOX.filter((table) => !tables.includes(table));

const ESCAPES = [
  ...INNER,
  `select outbox.install_catalogue('{}')`,
  'create schema mine',
  ...['outbox', 'inbox', 'sample', 'public', 'sealed_outbox'].map((schema) => `create table ${schema}.mine (n int)`),
  `create function public.mine() returns int language sql as 'select 1'`,
  'create role mine',
  'set role outbox_owner',
  'set role outbox_observer',
  'set role inbox_owner',
  'set role sealed_migrator',
  'alter table outbox.event disable trigger all',
  'drop table outbox.event',
  'select from sealed_outbox.migration',
];

interface Rights {
  readonly user: TestUser;
  readonly may: readonly string[];
  readonly mustNot: readonly string[];
}

const TABLE: readonly Rights[] = [
  {
    user: 'sealed_writer',
    may: [APPEND],
    mustNot: [
      ...reading('outbox', OUTBOX),
      ...writing('outbox', OUTBOX),
      ...updating(),
      ...reading('inbox', INBOX),
      ...writing('inbox', INBOX),
      `select outbox.aggregate_key('a', 'b')`,
      'select outbox.uuid_v7()',
      `select nextval('outbox.delivery_position_seq')`,
    ],
  },
  {
    user: 'sealed_relay',
    may: [
      ...reading('outbox', except(['stream', 'audit', 'operator_act'])),
      'select data from outbox.event',
      ...RELAY_UPDATES.map((column) => {
        const [table, name] = column.split('.');
        return `update outbox.${table} set ${name} = default`;
      }),
      `insert into outbox.relay (owner, slot) values (gen_random_uuid(), 's')`,
      'delete from outbox.relay',
      'select from outbox.partition for update skip locked',
    ],
    mustNot: [
      APPEND,
      ...reading('outbox', ['stream', 'audit', 'operator_act']),
      ...without(writing('outbox', OUTBOX), ['delete from outbox.relay', 'insert into outbox.relay default values']),
      `insert into outbox.relay (owner, slot, started_at) values (gen_random_uuid(), 's', 'infinity')`,
      ...updating(RELAY_UPDATES),
      ...reading('inbox', INBOX),
      'select from outbox.event for update',
    ],
  },
  {
    user: 'sealed_monitor',
    may: [
      ...reading('outbox', except(['stream'])).filter((sql) => sql !== 'select from outbox.event'),
      'select id, aggregate_type, aggregate_id, sequence, type, schema_version, occurred_at from outbox.event',
      'select * from outbox.delivery',
    ],
    mustNot: [
      'select data from outbox.event',
      'select metadata from outbox.event',
      'select * from outbox.event',
      ...reading('outbox', ['stream']),
      ...writing('outbox', OUTBOX),
      ...updating(),
      APPEND,
      ...reading('inbox', INBOX),
      ...writing('inbox', INBOX),
      ...HELD_ACTS,
    ],
  },
  {
    user: 'sealed_janitor',
    may: [
      ...reading('outbox', [...CATALOGUE, 'delivery', 'audit', 'replay']),
      'select id, type, occurred_at from outbox.event',
    ],
    mustNot: [
      'select data from outbox.event',
      'select aggregate_id from outbox.event',
      ...reading('outbox', ['stream', 'partition', 'relay', 'operator_act']),
      // What it deletes, it deletes through functions that look first.
      ...writing('outbox', OUTBOX),
      ...updating(),
      APPEND,
      ...reading('inbox', INBOX),
      ...writing('inbox', INBOX),
    ],
  },
  {
    user: 'sealed_operator',
    // Nothing is parked or blocked here: the acts that could find nothing to do are tried in operate.test.ts.
    may: [
      `select outbox.restore('c', 'r')`,
      'select outbox.list_parked()',
      'select inbox.list_held()',
      `select outbox.count_replay('queue', '{"aggregate_type": "thing"}')`,
      `select outbox.start_replay('queue', '{"aggregate_type": "thing"}', 1, 'r')`,
      'select outbox.list_replays()',
      ...LOOKS,
    ],
    mustNot: [
      ...HELD_ACTS.slice(6),
      `select inbox.take('c', 'any', 'beginning', '1 day', '[]')`,
      `select inbox.hold('c', 'any', '[]')`,
      `select inbox.take_held('c', 'any', 'beginning', '', '', 1)`,
      ...reading('outbox', OUTBOX),
      ...writing('outbox', OUTBOX),
      ...updating(),
      APPEND,
      `select nextval('outbox.delivery_position_seq')`,
      ...reading('inbox', INBOX),
      ...writing('inbox', INBOX),
      ...reading('sample', ['invoice', 'payment', 'idempotency', 'ledger_invoice', 'ledger_entry']),
    ],
  },
  {
    user: 'sealed_replayer',
    may: [],
    mustNot: [
      ...reading('outbox', OUTBOX),
      ...writing('outbox', OUTBOX),
      ...updating(),
      APPEND,
      SET_ASIDE,
      ...reading('inbox', INBOX),
    ],
  },
  {
    user: 'sealed_ledger',
    may: [
      ...reading('inbox', INBOX),
      `insert into inbox.consumer (name, mode, starting_point) values ('c', 'strict', 'beginning')`,
      `insert into inbox.processed_event values ('c', gen_random_uuid(), now())`,
      `insert into inbox.stream_position values ('c', 't', 'i', 1) on conflict (consumer, aggregate_type, aggregate_id)
         do update set sequence = excluded.sequence where stream_position.sequence < excluded.sequence`,
      'update inbox.held_event set attempts = attempts',
      'delete from inbox.held_event',
      'delete from inbox.external_call',
      'update inbox.consumer set window_days = window_days',
    ],
    mustNot: [
      ...reading('outbox', OUTBOX),
      ...writing('outbox', OUTBOX),
      ...updating(),
      APPEND,
      ...HELD_ACTS,
      'delete from inbox.processed_event',
      'update inbox.processed_event set event_time = event_time',
      'delete from inbox.stream_position',
      'delete from inbox.consumer',
      'update inbox.consumer set generation = generation',
      'insert into inbox.pruned default values',
      'update inbox.pruned set before = before',
      'delete from inbox.pruned',
      `select inbox.windows_beyond('1 day')`,
      ...INBOX.map((table) => `truncate inbox.${table}`),
      ...reading('sample', ['invoice', 'payment', 'idempotency']),
    ],
  },
  {
    user: 'sealed_api',
    may: [APPEND, ...reading('sample', ['invoice', 'payment', 'idempotency'])],
    mustNot: [
      ...reading('outbox', OUTBOX),
      ...writing('outbox', OUTBOX),
      ...updating(),
      ...reading('inbox', INBOX),
      ...reading('sample', ['ledger_invoice', 'ledger_entry']),
      'delete from sample.invoice',
      'update sample.invoice set total_minor = total_minor',
      'update sample.payment set amount_minor = amount_minor',
    ],
  },
];

/** Which of the statements did not end as they should. */
async function otherThan(expected: string | null, user: TestUser, statements: readonly string[]): Promise<string[]> {
  const others: string[] = [];
  for (const sql of statements) {
    const state = await sqlStateOf(user, sql);
    if (state !== expected) others.push(`${state ?? 'done'}: ${sql}`);
  }
  return others;
}

describe.each(TABLE.filter(({ user }) => user !== 'sealed_operator'))('$user', ({ user }) => {
  it('may do none of the acts of operators; only a relay may set aside, and only what the catalogue says', async () => {
    expect(await otherThan(FORBIDDEN, user, [...ACTS, ...LOOKS, ...LOOKS_AT_ONE])).toEqual([]);
    expect(await sqlStateOf(user, SET_ASIDE)).toBe(user === 'sealed_relay' ? 'OB006' : FORBIDDEN);
  });

  it('may neither plan a replay nor bring archived events back, unless it is the relay or the replayer', async () => {
    for (const sql of REPLAYING) expect((await sqlStateOf(user, sql)) === FORBIDDEN).toBe(user !== 'sealed_relay');
    for (const sql of RETURNING) expect((await sqlStateOf(user, sql)) === FORBIDDEN).toBe(user !== 'sealed_replayer');
  });
});

describe.each(TABLE)('$user', ({ user, may, mustNot }) => {
  it('may do its work', async () => {
    expect(await otherThan(null, user, may)).toEqual([]);
  });

  it('may do nothing else', async () => {
    expect(await otherThan(FORBIDDEN, user, mustNot)).toEqual([]);
  });

  it('may ask how much waits and is held only as the monitor, and as the operator', async () => {
    const asks = user === 'sealed_monitor' || user === 'sealed_operator';
    expect(await otherThan(asks ? null : FORBIDDEN, user, MONITORING)).toEqual([]);
    const observes = user === 'sealed_monitor';
    expect(await otherThan(observes ? null : FORBIDDEN, user, ['select outbox.database_age()'])).toEqual([]);
  });

  it('may install no catalogue, make nothing, and become nobody else', async () => {
    expect(await otherThan(FORBIDDEN, user, ESCAPES)).toEqual([]);
  });
});

describe('the catalogue', () => {
  it('is installed by the owner, and only by the owner', async () => {
    await expect(installCatalogue(as('sealed_migrator'))).resolves.toBeUndefined();
  });
});

describe('no user', () => {
  it('is a superuser, makes databases or roles, or goes round the rights of rows; the migrating one may make roles', async () => {
    const { rows } = await as('sealed_migrator').query(
      `select rolname as name, rolsuper or rolcreatedb or rolreplication or rolbypassrls as mighty, rolcreaterole as makes
         from pg_roles where rolname ~ '^(sealed|outbox|inbox|sample)_'`,
    );
    expect(rows.length).toBeGreaterThanOrEqual(RESTRICTED.length + 10);
    expect(rows.filter((row) => row.mighty)).toEqual([]);
    expect(rows.filter((row) => row.makes).map((row) => row.name)).toEqual(['sealed_migrator']);
  });

  it('logs in as a role of the product', async () => {
    const { rows } = await as('sealed_migrator').query(
      `select rolname from pg_roles where rolname ~ '^(outbox|inbox|sample)_' and rolcanlogin`,
    );
    expect(rows).toEqual([]);
  });

  it('gets anything just by being there: public has no right on a table or function of the product', async () => {
    const { rows } = await as('sealed_migrator').query(
      `select n.nspname || '.' || o.name as what
         from (select pronamespace as namespace, proname as name, coalesce(proacl, acldefault('f', proowner)) as acl from pg_proc
                union all
               select relnamespace, relname, coalesce(relacl, acldefault('r', relowner)) from pg_class where relkind in ('r', 'v', 'S', 'm')) o
         join pg_namespace n on n.oid = o.namespace
        cross join aclexplode(o.acl) a
        where n.nspname in ('outbox', 'inbox', 'sample', 'sealed_outbox') and a.grantee = 0`,
    );
    expect(rows).toEqual([]);
    const functions = await as('sealed_migrator').query(
      `select has_function_privilege('outbox_relay', 'outbox.append(jsonb)', 'execute') as append,
              has_function_privilege('outbox_relay', 'outbox.aggregate_key(text, text)', 'execute') as key`,
    );
    expect(functions.rows).toEqual([{ append: false, key: false }]);
  });

  it('is taken in by an object of its own: what runs as the owner looks nothing up where a caller could put it', async () => {
    const { rows } = await as('sealed_migrator').query(
      `select p.proname, p.proowner::regrole::text as owner, p.proconfig
         from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname in ('outbox', 'inbox', 'sample') and p.prosecdef
        order by p.proname`,
    );
    const path = 'search_path=pg_catalog, pg_temp';
    const functions = {
      outbox_owner: [
        'append',
        'apply_parking',
        'apply_parking',
        'apply_replay_parking',
        'apply_replay_parking',
        'archivable',
        'archivable_unrouted',
        'begin_operator_act',
        'begin_walk',
        'cancel_replay',
        'clear_replay',
        'count_replay',
        'end_operator_act',
        'end_returning',
        'finish_replay',
        'lag',
        'list_blocked',
        'list_operator_acts',
        'list_parked',
        'list_pending',
        'list_relays',
        'list_replays',
        'mark_low_water',
        'pause_replay',
        'plan_replay',
        'prune',
        'prune_unrouted',
        'redrive',
        'restore',
        'resume_replay',
        'return_events',
        'set_aside',
        'show_aggregate',
        'show_installation',
        'show_parked',
        'skip',
        'start_replay',
        'unblock',
      ],
      inbox_owner: [
        'accept_gap',
        'begin_walk',
        'end_replay',
        'forget',
        'held_lag',
        'list_consumers',
        'list_held',
        'list_held_calls',
        'prune',
        'prune_counted',
        'pruned_consumers',
        'record_held_call',
        'release_held',
        'repeat_held_call',
        'reset_consumer',
        'retry_held',
        'show_held',
        'skip_held',
        'windows_beyond',
      ],
      outbox_observer: ['database_age'],
      sample_owner: ['prune_idempotency'],
    };
    for (const { proconfig } of rows) expect(proconfig).toEqual(expect.arrayContaining([path]));
    const found = Object.groupBy(rows, ({ owner }) => owner);
    expect(
      Object.fromEntries(Object.entries(found).map(([owner, of]) => [owner, of?.map((it) => it.proname)])),
    ).toEqual(functions);
  });
});
