import type { Context } from 'aws-lambda';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Queryable } from '../../../shared/database/index.ts';
import { positionOf, putInto, statesOf } from '../../support/chain.ts';
import { testDatabase, type TestDatabase } from '../../support/database.ts';
import { testOperator } from '../../support/operator.ts';
import { append, installCatalogue, thing } from '../../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const operator = await testOperator(database);

beforeAll(() => installCatalogue(owner));
beforeEach(() =>
  owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.audit, outbox.operator_act'),
);

async function parked(): Promise<string> {
  await append(database.pool('sealed_writer'), thing('a', { name: 'canary' }));
  await putInto(owner, 'parked', 'a#1');
  return positionOf(owner, 'a#1');
}

const acts = async () => (await owner.query('select * from outbox.operator_act order by number')).rows;

/** A connection that fails at a statement, before it is sent or after it was carried out. */
function failingAt(db: Queryable, at: RegExp, when: 'before' | 'after', code = '08006'): Queryable {
  const lost = () => Object.assign(new Error('Key (email)=(canary@example.com) is somewhere in here'), { code });
  return {
    query: async (text: string, values?: readonly unknown[]) => {
      if (at.test(text) && when === 'before') throw lost();
      const result = await db.query(text, values);
      if (at.test(text)) throw lost();
      return result;
    },
  };
}

describe('a call of the operator', () => {
  it('leaves who, as they say, when, what, why, how it ended, and the request that CloudTrail knows', async () => {
    const position = await parked();
    const answer = await operator.call('redrive', { position }, 'mended, INC-7');
    const [act] = await acts();
    expect(act).toMatchObject({
      number: answer.act,
      actor: 'sealed_operator',
      claimed_by: operator.by,
      request_id: expect.stringMatching(/^request-\d+$/),
      command: 'redrive',
      arguments: { position },
      reason: 'mended, INC-7',
      outcome: 'done',
      detail: { state: 'pending', run: 1, unblocked: 0 },
    });
    expect(act.finished_at.getTime()).toBeGreaterThanOrEqual(act.started_at.getTime());
    const { rows } = await owner.query(`select operator_act from outbox.audit where act = 'redrive'`);
    expect(rows).toEqual([{ operator_act: answer.act }]);
    expect(operator.log.lines.at(-1)).toMatchObject({
      level: 'info',
      message: 'an operator called',
      fields: { act: answer.act, command: 'redrive', claimedBy: operator.by, reason: 'mended, INC-7', outcome: 'done' },
    });
  });

  it('that only looks is kept without what it has shown, and one at counts leaves a log line only', async () => {
    const position = await parked();
    await operator.done('parked show', { position, data: true });
    await operator.done('status');
    expect(await acts()).toMatchObject([{ command: 'parked show', reason: null, outcome: 'done', detail: null }]);
    expect(operator.log.lines.at(-1)?.fields).toMatchObject({ command: 'status', act: null, outcome: 'done' });
    expect(JSON.stringify(operator.log.lines)).not.toContain('canary');
  });

  it('that is refused is kept, too', async () => {
    const answer = await operator.call('skip', { position: '999' }, 'r');
    expect(await acts()).toMatchObject([
      { number: answer.act, command: 'skip', outcome: 'refused', detail: { code: 'DELIVERY_UNKNOWN' } },
    ]);
  });

  it('is written down before anything is done: without that nothing is', async () => {
    const position = await parked();
    const client = await database.client('sealed_operator');
    const answer = await operator.call('skip', { position }, 'r', failingAt(client, /begin_operator_act/, 'before'));
    expect(answer).toMatchObject({
      ok: false,
      act: null,
      outcome: 'failed',
      message: expect.stringContaining('Nothing was changed'),
    });
    expect(await statesOf(owner)).toEqual({ 'a#1': 'parked' });
  });

  it('whose answer the database did not give: it is said that nobody knows, without what the error says', async () => {
    const position = await parked();
    const client = await database.client('sealed_operator');
    const answer = await operator.call('skip', { position }, 'r', failingAt(client, /outbox\.skip/, 'after'));
    expect(answer).toMatchObject({ ok: false, outcome: 'failed', code: 'OPERATION_FAILED' });
    expect(JSON.stringify([answer, operator.log.lines])).not.toContain('canary@');
    expect(await acts()).toMatchObject([{ outcome: 'failed', detail: { code: 'OPERATION_FAILED' } }]);
    expect(await statesOf(owner)).toMatchObject({ 'a#1': 'set_aside' });
  });

  it('that is done stays done when its end cannot be written down: the row has no outcome, the log has it', async () => {
    const position = await parked();
    const client = await database.client('sealed_operator');
    const answer = await operator.call('redrive', { position }, 'r', failingAt(client, /end_operator_act/, 'before'));
    expect(answer).toMatchObject({ ok: true });
    expect(await acts()).toMatchObject([{ number: answer.act, outcome: null, finished_at: null }]);
    expect(operator.log.lines.slice(-2)).toMatchObject([
      { level: 'error', fields: { act: answer.act, outcome: 'done' } },
      { level: 'info', fields: { act: answer.act, outcome: 'done' } },
    ]);
  });

  it('is listed, newest first, a page at a time', async () => {
    for (const position of ['1', '2', '3']) await operator.call('redrive', { position }, 'r');
    const first = await operator.done('acts list', { limit: 3 });
    // The look at the list is the newest itself.
    expect(first['acts']).toMatchObject([
      { command: 'acts list', outcome: null },
      { arguments: { position: '3' } },
      {},
    ]);
    const { number } = (first['acts'] as unknown as { number: string }[])[2]!;
    expect(await operator.done('acts list', { before: number })).toMatchObject({
      acts: [{ arguments: { position: '1' } }],
    });
  });
});

describe('a request that is wrong', () => {
  const by = 'somebody';
  it.each([
    [null, 'REQUEST_MALFORMED'],
    [{}, 'REQUEST_MALFORMED'],
    [{ command: 'status', arguments: {} }, 'REQUEST_MALFORMED'],
    [{ command: 'status', arguments: {}, by: ' ' }, 'REQUEST_MALFORMED'],
    [{ command: 'status', arguments: {}, by, more: 1 }, 'REQUEST_MALFORMED'],
    [{ command: 'drop', arguments: {}, by }, 'COMMAND_UNKNOWN'],
    [{ command: 'toString', arguments: {}, by }, 'COMMAND_UNKNOWN'],
    [{ command: 'request', arguments: {}, by }, 'COMMAND_UNKNOWN'],
    [{ command: 'redrive', arguments: { position: '1' }, by }, 'OPERATION_ARGUMENT'],
    [{ command: 'status', arguments: {}, by, reason: 'r' }, 'OPERATION_ARGUMENT'],
    [{ command: 'redrive', arguments: {}, by, reason: 'r' }, 'OPERATION_ARGUMENT'],
    [{ command: 'redrive', arguments: { position: '1; drop' }, by, reason: 'r' }, 'OPERATION_ARGUMENT'],
    [{ command: 'redrive', arguments: { position: '1', force: true }, by, reason: 'r' }, 'OPERATION_ARGUMENT'],
    [{ command: 'held list', arguments: { limit: 0 }, by }, 'OPERATION_ARGUMENT'],
    [
      { command: 'replay start', arguments: { destination: 'queue', from: 'monday' }, by, reason: 'r' },
      'OPERATION_ARGUMENT',
    ],
    // A day that no month has would be taken for one of the next.
    [
      { command: 'replay return', arguments: { number: 1, fromDay: '2026-02-31' }, by, reason: 'r' },
      'OPERATION_ARGUMENT',
    ],
    [
      { command: 'replay return', arguments: { number: 1, fromDay: '2026-02-01/..' }, by, reason: 'r' },
      'OPERATION_ARGUMENT',
    ],
  ])('%j is refused before anything is written', async (input, code) => {
    const answer = await operator.send(input);
    expect(answer).toMatchObject({ ok: false, act: null, outcome: 'refused', code });
    expect(answer).toHaveProperty('message', expect.stringMatching(/Nothing was done/));
    expect(await acts()).toEqual([]);
  });
});

describe('the rights', () => {
  it('of the operator end at its functions: no table, and no row of another’s act', async () => {
    const client = await database.client('sealed_operator');
    for (const sql of [
      'select from outbox.operator_act',
      'delete from outbox.operator_act',
      `update outbox.operator_act set outcome = 'done'`,
      'select from outbox.delivery',
      'select from outbox.event',
      'select from outbox.audit',
      'select from inbox.audit',
      'select from inbox.held_event',
      'select outbox.destination_number(null)',
    ]) {
      await expect(client.query(sql), sql).rejects.toMatchObject({ code: '42501' });
    }
    await owner.query(
      `insert into outbox.operator_act (actor, claimed_by, request_id, command, arguments) values ('other', 'a', 'b', 'c', '{}')`,
    );
    const [{ number }] = await acts();
    await expect(client.query(`select outbox.end_operator_act($1, 'done', null)`, [number])).rejects.toMatchObject({
      code: 'OB007',
    });
  });

  it('of the operator do not let it say twice how an act ended', async () => {
    const client = await database.client('sealed_operator');
    const { rows } = await client.query(`select outbox.begin_operator_act('a', 'b', 'c', '{}', null) as number`);
    await client.query(`select outbox.end_operator_act($1, 'refused', null)`, [rows[0].number]);
    await expect(
      client.query(`select outbox.end_operator_act($1, 'done', null)`, [rows[0].number]),
    ).rejects.toMatchObject({ code: 'OB007' });
  });
});

describe('the function as Lambda loads it', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  const context = { awsRequestId: 'lambda-1', getRemainingTimeInMillis: () => 300_000 } as unknown as Context;

  async function loaded(config: ReturnType<TestDatabase['config']>, more: Readonly<Record<string, string>> = {}) {
    const variables = {
      DATABASE_HOST: config.host,
      DATABASE_PORT: String(config.port),
      DATABASE_NAME: config.database,
      DATABASE_USER: config.user,
      DATABASE_AUTH: 'password',
      DATABASE_PASSWORD: 'password' in config ? config.password : '',
      AWS_REGION: 'us-east-1',
      POWERTOOLS_LOG_LEVEL: 'SILENT',
      ...more,
    };
    for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
    vi.resetModules();
    return import('../../../functions/operator/index.ts');
  }

  it('connects as its own user, acts, and writes down the invocation', async () => {
    const position = await parked();
    const { handler } = await loaded(database.config('sealed_operator'));
    const request = { command: 'redrive', arguments: { position }, by: operator.by, reason: 'r' };
    expect(await handler(request, context)).toMatchObject({ ok: true, result: { state: 'pending' } });
    expect(await acts()).toMatchObject([{ request_id: 'lambda-1', outcome: 'done' }]);
  });

  it('tries again to open what erases, where it could not be opened at first', async () => {
    const erasing = '../../../functions/operator/erasing.ts';
    const status = async () => ({ outcome: 'done', classes: [] });
    const ready = async () => {};
    vi.doMock(erasing, () => {
      vi.doMock(erasing, () => ({ openErasing: () => ({ erasure: { status }, ready }) }));
      throw new Error('EMFILE');
    });
    const { handler } = await loaded(database.config('sealed_operator'), {
      OPERATOR_VAULT: 'true',
      OPERATOR_ERASES: '{"classes":{"tax":{"erase":"onRequest"}},"erasable":[]}',
    });
    const request = { command: 'erasures show', arguments: { kind: 'customer', id: 'C-1' }, by: operator.by };
    expect(await handler(request, context)).toMatchObject({ ok: false, code: 'OPERATION_FAILED' });
    expect(await handler(request, context)).toMatchObject({ ok: true, result: { outcome: 'done' } });
    vi.doUnmock(erasing);
  });

  it('says that the database cannot be reached, and that nothing was changed', async () => {
    const { handler } = await loaded({ ...database.config('sealed_operator'), database: 'not_there' });
    const request = { command: 'status', arguments: {}, by: operator.by };
    expect(await handler(request, context)).toMatchObject({
      ok: false,
      outcome: 'failed',
      code: 'DATABASE_UNREACHABLE',
      message: expect.stringContaining('3D000'),
    });
  });
});
