import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { ensureLogins } from '../../shared/database/index.ts';
import { testDatabase } from '../support/database.ts';
import { table, withTables } from '../support/document-tables.ts';
import { STACK_LOGINS } from '../support/stack-logins.ts';

const DOCUMENT = join(import.meta.dirname, '../../docs/database-permissions.md');
const WRITE = 'npm test -- integration test/integration/login-grants.test.ts -u';
const SCHEMAS = ['outbox', 'inbox', 'vault', 'sample', 'sealed_outbox'];

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
// Users belong to the server, and those of other tests have other roles than the stack's.
const mark = randomBytes(4).toString('hex');
const nameHere = (user: string): string => `${user}_${mark}`;

interface Attempt {
  /** Table or function. */
  readonly on: string;
  readonly schema: string;
  /** `select`, `insert`, `update` with a column; `delete`, `truncate`, `lock`, `call` without. */
  readonly verb: string;
  readonly column?: string;
  readonly sql: string;
}

/** What may be tried on everything that there is: each verb on each table, each column by itself, and each function. */
async function attempts(): Promise<Attempt[]> {
  const columns = await owner.query(
    `select n.nspname as schema, n.nspname || '.' || c.relname as name, quote_ident(a.attname) as column,
            format_type(a.atttypid, a.atttypmod) as type, a.attidentity <> '' or a.attgenerated <> '' as made
       from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = any ($1) and c.relkind in ('r', 'p', 'v', 'm') and a.attnum > 0 and not a.attisdropped
      order by 1, 2, a.attnum`,
    [SCHEMAS],
  );
  const functions = await owner.query(
    `select n.nspname as schema, n.nspname || '.' || p.proname as name,
            (select coalesce(string_agg(format('null::%s', t::regtype), ', ' order by i), '') from unnest(p.proargtypes) with ordinality as u (t, i)) as arguments
       from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where n.nspname = any ($1) and p.prokind = 'f' and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
      order by 1, 2, 3`,
    [SCHEMAS],
  );
  const tables = new Map(columns.rows.map(({ name, schema }) => [name as string, schema as string]));
  return [
    ...columns.rows.flatMap(({ schema, name, column, type, made }): Attempt[] => [
      { schema, on: name, verb: 'select', column, sql: `select ${column} from ${name} where false` },
      // What the database makes itself nobody writes.
      ...(made === true
        ? []
        : [
            {
              schema,
              on: name,
              verb: 'insert',
              column,
              sql: `insert into ${name} (${column}) select null::${type} where false`,
            },
            { schema, on: name, verb: 'update', column, sql: `update ${name} set ${column} = null where false` },
          ]),
    ]),
    ...[...tables].flatMap(([name, schema]): Attempt[] => [
      { schema, on: name, verb: 'delete', sql: `delete from ${name} where false` },
      { schema, on: name, verb: 'truncate', sql: `truncate ${name}` },
    ]),
    ...functions.rows.map(({ schema, name, arguments: given }): Attempt => ({
      schema,
      on: name,
      verb: 'call',
      sql: `select ${name}(${given})`,
    })),
  ];
}

/** Tries all in one transaction of the user, each in a block of its own, and keeps nothing. @returns which were not refused */
async function allowed(user: string, all: readonly Attempt[], password: string): Promise<readonly Attempt[]> {
  const { port } = inject('postgres');
  const client = new pg.Client({ host: '127.0.0.1', port, database: database.name, user, password });
  await client.connect();
  try {
    await client.query('begin');
    await client.query(`do $block$
      declare
        tried text;
        answers text := '';
      begin
        for tried in select jsonb_array_elements_text(${pg.escapeLiteral(JSON.stringify(all.map(({ sql }) => sql)))}::jsonb) loop
          begin
            execute tried;
            answers := answers || '1';
          exception
            when insufficient_privilege then answers := answers || '0';
            -- Refused by something else than a right: so it has the right.
            when others then answers := answers || '1';
          end;
        end loop;
        perform set_config('trial.answers', answers, true);
      end
    $block$`);
    const { rows } = await client.query(`select current_setting('trial.answers') as answers`);
    await client.query('rollback');
    return all.filter((_, index) => (rows[0].answers as string)[index] === '1');
  } finally {
    await client.end();
  }
}

let all: Attempt[];
const may = new Map<string, readonly Attempt[]>();

beforeAll(async () => {
  const { password } = inject('postgres');
  await ensureLogins(
    owner,
    STACK_LOGINS.map(({ user, roles }) => ({ user: nameHere(user), roles })),
    { auth: 'password', password },
  );
  all = await attempts();
  for (const { user } of STACK_LOGINS) may.set(user, await allowed(nameHere(user), all, password));
});
afterAll(async () => {
  for (const { user } of STACK_LOGINS) await owner.query(`drop role if exists ${nameHere(user)}`);
});

/** What a user may do on a table, in words: columns where it may not touch all of them. */
function inWords(rights: readonly Attempt[], on: string): string {
  const verbs = ['select', 'insert', 'update', 'delete', 'truncate'].flatMap((verb) => {
    const own = rights.filter((it) => it.on === on && it.verb === verb);
    if (own.length === 0) return [];
    const columns = own.flatMap(({ column = [] }) => column);
    const whole = all.filter((it) => it.on === on && it.verb === verb).length === own.length;
    return [whole ? verb : `${verb} (${columns.join(', ')})`];
  });
  return verbs.join(', ');
}

const names = (attempted: readonly Attempt[]): string[] => [...new Set(attempted.map(({ on }) => on))];
const functionsOf = (attempted: readonly Attempt[]): Attempt[] => attempted.filter(({ verb }) => verb === 'call');
const tablesOf = (attempted: readonly Attempt[]): Attempt[] => attempted.filter(({ verb }) => verb !== 'call');

it(`docs/database-permissions.md holds what was not refused (written by: ${WRITE})`, async () => {
  const made = {
    tables: table(
      ['user', 'table', 'may'],
      [...may].flatMap(([user, rights]) =>
        names(tablesOf(rights)).map((on) => [`\`${user}\``, `\`${on}\``, inWords(rights, on)]),
      ),
    ),
    functions: table(
      ['user', 'may call'],
      [...may].map(([user, rights]) => [
        `\`${user}\``,
        names(functionsOf(rights))
          .map((on) => `\`${on}\``)
          .join(', '),
      ]),
    ),
  };
  await expect(withTables(readFileSync(DOCUMENT, 'utf8'), made)).toMatchFileSnapshot(DOCUMENT, WRITE);
});

describe('of all that there is in the database', () => {
  const reached = (user: string): string[] => [...new Set(may.get(user)!.map(({ schema }) => schema))].toSorted();

  it('each user reaches only the areas that it works in', () => {
    expect(Object.fromEntries(STACK_LOGINS.map(({ user }) => [user, reached(user)]))).toEqual({
      sealed_relay: ['outbox'],
      sealed_monitor: ['inbox', 'outbox'],
      sealed_ledger: ['inbox', 'sample', 'vault'],
      sealed_analytics: ['inbox', 'sample'],
      sealed_notifications: ['inbox', 'sample', 'vault'],
      sealed_api: ['outbox', 'sample', 'vault'],
      sealed_janitor: ['inbox', 'outbox', 'sample', 'vault'],
      sealed_operator: ['inbox', 'outbox', 'sample', 'vault'],
    });
  });

  it('nobody adds, changes or deletes an event, a sequence or an entry of an audit by hand', () => {
    const kept = new Set(['outbox.event', 'outbox.stream', 'outbox.audit', 'outbox.operator_act', 'inbox.audit']);
    for (const [user, rights] of may) {
      const wrote = rights.filter(({ on, verb }) => kept.has(on) && verb !== 'select');
      expect([user, wrote]).toEqual([user, []]);
    }
  });

  it('nobody truncates anything, and the operator touches no table but those in which it erases, as the API does', () => {
    for (const rights of may.values()) expect(rights.filter(({ verb }) => verb === 'truncate')).toEqual([]);
    const touched = tablesOf(may.get('sealed_operator')!);
    expect(names(touched)).toEqual([
      'sample.customer',
      'sample.invoice',
      'vault.erasure',
      'vault.erasure_position',
      'vault.erasure_request',
      'vault.restricted_key',
      'vault.subject_key',
    ]);
    // What takes data away: nothing that the API's login, or the janitor's, may not do as well.
    for (const other of ['sealed_api', 'sealed_janitor']) {
      const theirs = new Set(may.get(other)!.map(({ sql }) => sql));
      expect(touched.filter(({ sql }) => !theirs.has(sql))).toEqual([]);
    }
  });

  it('the roles of an operator who erases nobody touch no table at all', async () => {
    const client = await database.client('sealed_operator');
    const tables = all.filter(({ verb }) => verb !== 'call');
    for (const { sql } of tables) await expect(client.query(sql), sql).rejects.toMatchObject({ code: '42501' });
  });

  it('the monitor only reads, and no data', () => {
    const rights = tablesOf(may.get('sealed_monitor')!);
    expect(new Set(rights.map(({ verb }) => verb))).toEqual(new Set(['select']));
    expect(rights.filter(({ column }) => ['data', 'metadata', 'body', 'response'].includes(column ?? ''))).toEqual([]);
  });

  it('a consumer reads what it needs of the sample, and no other table of it', () => {
    const readIn = (user: string): string[] =>
      names(tablesOf(may.get(user)!).filter(({ schema }) => schema === 'sample'));
    expect(readIn('sealed_ledger')).toEqual(['sample.ledger_entry', 'sample.ledger_invoice']);
    expect(readIn('sealed_analytics')).toEqual(['sample.analytics_day']);
    expect(readIn('sealed_notifications')).toEqual(['sample.notification']);
  });

  it('most is refused to each: no user may do a third of it', () => {
    expect(all.length).toBeGreaterThan(500);
    for (const [user, rights] of may) expect([user, rights.length < all.length / 3]).toEqual([user, true]);
  });
});
