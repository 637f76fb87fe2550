import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { positionOf, putInto, statesOf } from '../../support/chain.ts';
import { testDatabase } from '../../support/database.ts';
import { testOperator } from '../../support/operator.ts';
import { append, installCatalogue, thing } from '../../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const operator = await testOperator(database);

beforeAll(() => installCatalogue(owner));
beforeEach(() =>
  owner.query(
    'truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay, outbox.audit, outbox.operator_act, outbox.replay',
  ),
);

/** Aggregate `a`: the first of three parked, the others blocked behind it. */
async function blockedChain(): Promise<string> {
  await append(writer, thing('a', { canary: 'x' }), thing('a'), thing('a'));
  await putInto(owner, 'parked', 'a#1');
  await putInto(owner, 'blocked', 'a#2', 'a#3');
  return positionOf(owner, 'a#1');
}

const refused = (code: string, message: RegExp) => ({
  ok: false,
  outcome: 'refused',
  code,
  message: expect.stringMatching(message),
});

describe('looking', () => {
  it('at everything: destinations, relays, partitions, consumers, open replays', async () => {
    await blockedChain();
    await append(writer, thing('b'));
    await owner.query(`insert into outbox.relay (owner, slot) values ('01936f00-0000-7000-8000-000000000001', 'one')`);
    await owner.query(`insert into outbox.relay (owner, slot, ended_at) values (gen_random_uuid(), 'gone', now())`);
    await owner.query(
      `update outbox.partition set lease_owner = '01936f00-0000-7000-8000-000000000001',
              lease_expires_at = clock_timestamp() + interval '1 day' where number < 3`,
    );
    await owner.query(
      `insert into inbox.consumer (name, mode, starting_point) values ('status', 'strict', 'beginning') on conflict do nothing`,
    );
    const { number } = await operator.done('replay start', { destination: 'queue', eventIds: [ID], paused: true }, 'r');
    const status = await operator.done('status');
    expect(status).toMatchObject({
      source: '/test',
      partitions: 64,
      leased: 3,
      relaySilenceSeconds: expect.any(Number),
      destinations: [{ destination: 'queue', retired: false, pending: 1, parked: 1, blocked: 2, orphaned: 0 }],
      relays: [{ slot: 'one', partitions: 3, ended: false }],
      consumers: [{ consumer: 'status', mode: 'strict', replayAccepted: 0, held: 0, oldestForPersonSeconds: 0 }],
      replays: [{ number, state: 'paused' }],
    });
    await owner.query('update outbox.partition set lease_owner = null, lease_expires_at = null');
  });

  it('at what is parked, a page at a time, and at one of them, with its data only where it is asked for', async () => {
    const position = await blockedChain();
    expect(await operator.done('parked list', { destination: 'queue' })).toMatchObject({
      parked: [{ position, sequence: '1', aggregateId: 'a', attempts: 12, blockedBehind: 2 }],
      next: null,
    });
    expect(await operator.done('parked list', { limit: 1 })).toMatchObject({ next: position });
    expect(await operator.done('parked list', { after: position })).toMatchObject({ parked: [] });
    const shown = await operator.done('parked show', { position });
    expect(shown).toMatchObject({
      position,
      type: 'thing.happened',
      whenParked: 'block',
      blockedBehind: 2,
      data: null,
    });
    const withData = await operator.done('parked show', { position, data: true });
    expect(JSON.parse(withData['data']!)).toEqual({ canary: 'x' });
    const { rows } = await owner.query(
      `select detail -> 'with_data' as asked from outbox.audit where act = 'show_parked' order by id`,
    );
    expect(rows.map(({ asked }) => asked)).toEqual([false, true]);
  });

  it('at what waits, at what is blocked, and how far an aggregate has come', async () => {
    const position = await blockedChain();
    await append(writer, thing('b'), thing('orphan'));
    await putInto(owner, 'blocked', 'orphan#1');
    await owner.query(`update outbox.delivery set attempts = 3, last_error = 'Odd: late' where state = 'pending'`);
    expect(await operator.done('pending list', { destination: 'queue' })).toMatchObject({
      pending: [{ aggregateId: 'b', sequence: '1', attempts: 3, lastError: 'Odd: late', dueInSeconds: 0 }],
    });
    expect(await operator.done('blocked list')).toEqual({
      blocked: [
        {
          destination: 'queue',
          aggregateType: 'thing',
          aggregateId: 'orphan',
          blocked: 1,
          fromSequence: '1',
          head: null,
        },
        {
          destination: 'queue',
          aggregateType: 'thing',
          aggregateId: 'a',
          blocked: 2,
          fromSequence: '2',
          head: position,
        },
      ],
    });
    expect(await operator.done('aggregate show', { aggregateType: 'thing', aggregateId: 'a' })).toMatchObject({
      lastSequence: '3',
      unfinished: [
        { sequence: '1', state: 'parked' },
        { sequence: '2', state: 'blocked' },
        { sequence: '3', state: 'blocked' },
      ],
    });
    await owner.query(`update outbox.delivery set state = 'published'`);
    expect(await operator.done('aggregate show', { aggregateType: 'thing', aggregateId: 'a' })).toEqual({
      lastSequence: '3',
      unfinished: [],
    });
  });

  it.each([
    ['parked list', { destination: 'nowhere' }],
    ['pending list', { destination: 'nowhere' }],
    ['parked show', { position: '999999' }],
    ['aggregate show', { aggregateType: 'thing', aggregateId: 'nobody' }],
    ['replay show', { number: 999_999 }],
  ] as const)('%s says that there is no such thing', async (command, args) => {
    expect(await operator.call(command, args)).toMatchObject(
      refused('DELIVERY_UNKNOWN', /there is no|no event of this/),
    );
  });
});

describe('acting', () => {
  it('redrives, and answers what became of it', async () => {
    const position = await blockedChain();
    expect(await operator.done('redrive', { position }, 'mended')).toEqual({ state: 'pending', run: 1, unblocked: 2 });
    expect(new Set(Object.values(await statesOf(owner)))).toEqual(new Set(['pending']));
    expect(await operator.call('redrive', { position }, 'again')).toMatchObject(refused('NOT_IN_STATE', /not parked/));
    expect(await operator.call('redrive', { position: '999999' }, 'r')).toMatchObject(
      refused('DELIVERY_UNKNOWN', /no delivery 999999/),
    );
  });

  it('skips, with a tombstone in the place', async () => {
    const position = await blockedChain();
    const { tombstone } = await operator.done('skip', { position }, 'a bug');
    expect(tombstone).toMatch(/^\d+$/);
    expect(await statesOf(owner)).toEqual({
      'a#1': 'set_aside',
      'a#1†': 'pending',
      'a#2': 'pending',
      'a#3': 'pending',
    });
  });

  it('unblocks what is orphaned, and refuses where the head is parked', async () => {
    await blockedChain();
    const aggregate = { destination: 'queue', aggregateType: 'thing', aggregateId: 'a' };
    expect(await operator.call('unblock', aggregate, 'r')).toMatchObject(
      refused('NOT_IN_STATE', /waits behind delivery/),
    );
    await owner.query(`update outbox.delivery set state = 'published' where state = 'parked'`);
    expect(await operator.done('unblock', aggregate, 'orphaned')).toEqual({ unblocked: 2 });
  });

  it('restores: a new epoch, and the identity of the cluster', async () => {
    await append(writer, thing('a'));
    const { epoch, restamped } = await operator.done('restore', { cluster: 'new' }, 'restored');
    expect(epoch).toBeGreaterThan(0);
    expect(restamped).toBe(1);
    expect(await operator.done('status')).toMatchObject({ cluster: 'new', epoch });
    await owner.query('update outbox.installation set epoch = 0, cluster = null');
  });

  it('starts, pauses, resumes and cancels a replay, after a count of what it would send', async () => {
    await append(writer, thing('a'), thing('b'));
    await owner.query(`update outbox.delivery set state = 'published'`);
    const scope = { destination: 'queue', aggregateType: 'thing' };
    expect(await operator.done('replay count', scope)).toMatchObject({ events: 2, aggregates: 2 });
    const { number } = await operator.done('replay start', { ...scope, perSecond: 5 }, 'r');
    expect(await operator.done('replay show', { number })).toMatchObject({ number, state: 'running', perSecond: 5 });
    expect(await operator.done('replay pause', { number }, 'r')).toMatchObject({ state: 'paused' });
    expect(await operator.call('replay pause', { number }, 'r')).toMatchObject(refused('NOT_IN_STATE', /is paused/));
    expect(await operator.done('replay resume', { number }, 'r')).toMatchObject({ state: 'running' });
    expect(await operator.done('replay cancel', { number }, 'r')).toMatchObject({ state: 'cancelled', removed: 0 });
    expect(await operator.done('replay list', { limit: 1 })).toMatchObject({
      replays: [{ number, state: 'cancelled' }],
    });
    expect((await operator.done('status'))['replays']).toEqual([]);
    expect(await operator.call('replay start', { destination: 'queue' }, 'r')).toMatchObject(
      refused('OPERATION_ARGUMENT', /scope is empty/),
    );
  });

  it('waits for a lock no longer than an act may, and says that it is busy', async () => {
    const position = await blockedChain();
    const holder = await database.client('sealed_migrator');
    await holder.query('begin; select from outbox.partition for update');
    try {
      const impatient = await database.client('sealed_operator');
      await impatient.query(`set lock_timeout = '50ms'`);
      expect(await operator.call('redrive', { position }, 'r', impatient)).toMatchObject(
        refused('OPERATION_BUSY', /Nothing was changed/),
      );
    } finally {
      await holder.query('rollback');
    }
  });
});

const ID = '01936f00-0000-7000-8000-000000000009';
