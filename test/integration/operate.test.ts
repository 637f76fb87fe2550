import { beforeEach, describe, expect, it } from 'vitest';
import {
  listParked,
  OperationError,
  type ParkedDelivery,
  readLag,
  redrive,
  skip,
  unblock,
} from '../../shared/outbox/index.ts';
import { deliveriesOf, positionOf, putInto, statesOf } from '../support/chain.ts';
import { testDatabase } from '../support/database.ts';
import { append, installCatalogue, thing } from '../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const operator = database.pool('sealed_operator');
const relay = database.pool('sealed_relay');
const monitor = database.pool('sealed_monitor');

const DESTINATIONS = [
  { name: 'queue', kind: 'sqs-fifo' },
  { name: 'bus', kind: 'eventbridge' },
] as const;

beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay, outbox.audit');
  await installCatalogue(
    owner,
    [
      { type: 'thing.happened', destinations: ['queue'] },
      { type: 'thing.minor', destinations: ['queue'], when_parked: 'skip' },
      { type: 'thing.broadcast', destinations: ['bus'] },
    ],
    DESTINATIONS,
  );
  await owner.query('truncate outbox.audit');
});

async function audits(): Promise<{ actor: string; act: string; detail: Record<string, unknown> }[]> {
  return (await owner.query('select actor, act, detail from outbox.audit order by id')).rows;
}

/** A chain of `count` events of aggregate `id`, the first parked and the others blocked behind it. */
async function blockedChain(id: string, count: number): Promise<void> {
  await append(writer, ...Array.from({ length: count }, () => thing(id)));
  await putInto(owner, 'parked', `${id}#1`);
  await putInto(owner, 'blocked', ...Array.from({ length: count - 1 }, (_, index) => `${id}#${index + 2}`));
}

const refusal = (code: string, message: RegExp) =>
  expect.objectContaining({ name: 'OperationError', code, message: expect.stringMatching(message) });

describe('redrive', () => {
  it('makes a parked delivery due at once as a new run, with all its attempts, and lets its followers go behind it', async () => {
    await blockedChain('a', 3);
    await blockedChain('other', 2);
    const before = await deliveriesOf(owner);
    const position = await positionOf(owner, 'a#1');
    expect(await redrive(operator, position, 'mended')).toEqual({ state: 'pending', run: 1, unblocked: 2 });

    const after = await deliveriesOf(owner);
    expect(after.find(({ place }) => place === 'a#1')).toMatchObject({ state: 'pending', attempts: 0, run: 1 });
    expect(await statesOf(owner)).toEqual({
      'a#1': 'pending',
      'a#2': 'pending',
      'a#3': 'pending',
      'other#1': 'parked',
      'other#2': 'blocked',
    });
    // A relay that has read past the transaction which wrote these rows meets them again.
    const newest = Math.max(...before.map(({ xid }) => Number(xid)));
    for (const { place, xid } of after) {
      if (place.startsWith('a#')) expect(Number(xid)).toBeGreaterThan(newest);
      else expect(Number(xid)).toBeLessThanOrEqual(newest);
    }
    const { rows } = await owner.query(
      'select from outbox.delivery where position = $1 and due_at <= clock_timestamp()',
      [position],
    );
    expect(rows).toHaveLength(1);
  });

  it('counts its runs', async () => {
    await blockedChain('a', 1);
    const position = await positionOf(owner, 'a#1');
    await redrive(operator, position, 'once');
    await putInto(owner, 'parked', 'a#1');
    expect(await redrive(operator, position, 'twice')).toMatchObject({ run: 2 });
  });

  it('with several parked in one chain: lets go only what lies below the next parked one', async () => {
    await append(writer, ...Array.from({ length: 5 }, () => thing('a')));
    await putInto(owner, 'parked', 'a#1', 'a#3');
    await putInto(owner, 'blocked', 'a#2', 'a#4', 'a#5');
    expect(await redrive(operator, await positionOf(owner, 'a#1'), 'r')).toEqual({
      state: 'pending',
      run: 1,
      unblocked: 1,
    });
    expect(await statesOf(owner)).toEqual({
      'a#1': 'pending',
      'a#2': 'pending',
      'a#3': 'parked',
      'a#4': 'blocked',
      'a#5': 'blocked',
    });
  });

  it('of one that lies behind another parked one: it waits behind that, and goes with its redrive', async () => {
    await append(writer, ...Array.from({ length: 4 }, () => thing('a')));
    await putInto(owner, 'parked', 'a#1', 'a#3');
    await putInto(owner, 'blocked', 'a#2', 'a#4');
    expect(await redrive(operator, await positionOf(owner, 'a#3'), 'r')).toEqual({
      state: 'blocked',
      run: 1,
      unblocked: 0,
    });
    expect(await statesOf(owner)).toMatchObject({ 'a#1': 'parked', 'a#2': 'blocked', 'a#3': 'blocked' });
    expect(await redrive(operator, await positionOf(owner, 'a#1'), 'r')).toMatchObject({ unblocked: 3 });
    expect(new Set(Object.values(await statesOf(owner)))).toEqual(new Set(['pending']));
  });

  it('at an unordered destination, where nothing waits for anything', async () => {
    await append(writer, thing('a', {}, { type: 'thing.broadcast' }), thing('a', {}, { type: 'thing.broadcast' }));
    await putInto(owner, 'parked', 'a#1', 'a#2');
    expect(await redrive(operator, await positionOf(owner, 'a#2'), 'r')).toEqual({
      state: 'pending',
      run: 1,
      unblocked: 0,
    });
    expect(await statesOf(owner)).toEqual({ 'a#1': 'parked', 'a#2': 'pending' });
  });

  it('of a replay leaves the live chain as it is', async () => {
    await blockedChain('a', 2);
    await append(writer, thing('a'));
    await owner.query(`update outbox.delivery set replay = 1, state = 'parked' where sequence = 3`);
    expect(await redrive(operator, await positionOf(owner, 'a#3'), 'r')).toEqual({
      state: 'pending',
      run: 1,
      unblocked: 0,
    });
    expect(await statesOf(owner)).toEqual({ 'a#1': 'parked', 'a#2': 'blocked', 'a#3': 'pending' });
  });

  it.each(['pending', 'blocked', 'set_aside', 'published'])(
    'of one that is %s is refused; nothing changes',
    async (state) => {
      await append(writer, thing('a'));
      await putInto(owner, state, 'a#1');
      const position = await positionOf(owner, 'a#1');
      for (const act of [redrive, skip]) {
        await expect(act(operator, position, 'r')).rejects.toEqual(
          refusal(
            'NOT_IN_STATE',
            new RegExp(`delivery ${position} is ${state}, not parked\\. Nothing was changed\\. Only`),
          ),
        );
      }
      expect(await statesOf(owner)).toEqual({ 'a#1': state });
      expect(await audits()).toEqual([]);
    },
  );
});

describe('skip', () => {
  it('sets the delivery aside, puts a tombstone in its place, and lets its followers go behind it', async () => {
    await append(writer, thing('a', { secret: 'canary' }), thing('a'), thing('a'));
    await putInto(owner, 'parked', 'a#1');
    await putInto(owner, 'blocked', 'a#2', 'a#3');
    const { tombstone, unblocked } = await skip(operator, await positionOf(owner, 'a#1'), 'lost cause');
    expect(unblocked).toBe(2);
    expect(await statesOf(owner)).toEqual({
      'a#1': 'set_aside',
      'a#1†': 'pending',
      'a#2': 'pending',
      'a#3': 'pending',
    });
    expect(tombstone).toBe(await positionOf(owner, 'a#1†'));
    const { rows } = await owner.query(
      `select t.type, t.schema_version, t.data::text, t.metadata ->> 'causationid' = e.id::text as names_it, t.sequence = e.sequence as same,
              (td.destination, td.partition, td.aggregate_key, td.sequence, td.replay, td.run)
                = (ed.destination, ed.partition, ed.aggregate_key, ed.sequence, ed.replay, 0) as placed,
              get_byte(uuid_send(t.id), 6) >> 4 as uuid_version
         from outbox.event t
         join outbox.event e on (e.aggregate_id, e.sequence) = (t.aggregate_id, t.sequence) and e.id <> t.id
         join outbox.delivery td on td.event_id = t.id
         join outbox.delivery ed on ed.event_id = e.id
        where t.type = 'outbox.skipped'`,
    );
    expect(rows).toEqual([
      {
        type: 'outbox.skipped',
        schema_version: 1,
        data: '{}',
        names_it: true,
        same: true,
        placed: true,
        uuid_version: 7,
      },
    ]);
  });

  it('of a tombstone that was refused, too, accepts the gap', async () => {
    await blockedChain('a', 2);
    await skip(operator, await positionOf(owner, 'a#1'), 'r');
    await owner.query(`update outbox.delivery set state = 'parked' where position = $1`, [
      await positionOf(owner, 'a#1†'),
    ]);
    await putInto(owner, 'blocked', 'a#2');
    expect(await skip(operator, await positionOf(owner, 'a#1†'), 'gap accepted')).toEqual({
      tombstone: null,
      unblocked: 1,
    });
    expect(await statesOf(owner)).toEqual({ 'a#1': 'set_aside', 'a#1†': 'set_aside', 'a#2': 'pending' });
  });

  it('of one that lies behind another parked one: its tombstone waits there, too', async () => {
    await append(writer, thing('a'), thing('a'), thing('a'));
    await putInto(owner, 'parked', 'a#1', 'a#2');
    await putInto(owner, 'blocked', 'a#3');
    expect(await skip(operator, await positionOf(owner, 'a#2'), 'r')).toMatchObject({ unblocked: 0 });
    expect(await statesOf(owner)).toEqual({
      'a#1': 'parked',
      'a#2': 'set_aside',
      'a#2†': 'blocked',
      'a#3': 'blocked',
    });
    expect(await skip(operator, await positionOf(owner, 'a#1'), 'r')).toMatchObject({ unblocked: 2 });
  });

  it('concerns one destination only', async () => {
    await installCatalogue(owner, [{ type: 'thing.happened' }], DESTINATIONS);
    await append(writer, thing('a'));
    await putInto(owner, 'parked', 'a#1');
    await skip(operator, await positionOf(owner, 'a#1', 'queue'), 'r');
    expect(await statesOf(owner, 'queue')).toEqual({ 'a#1': 'set_aside', 'a#1†': 'pending' });
    expect(await statesOf(owner, 'bus')).toEqual({ 'a#1': 'parked' });
  });
});

describe('set_aside, which a relay calls', () => {
  const setAside = async (place: string, holder: string | null = null): Promise<string | null> => {
    const { rows } = await relay.query('select outbox.set_aside($1, $2, $3) as tombstone', [
      await positionOf(owner, place),
      'Odd: as the test wants it',
      holder,
    ]);
    return rows[0].tombstone;
  };
  const minor = (id: string) => thing(id, {}, { type: 'thing.minor' });

  it.each(['pending', 'parked'])(
    'does for a type with the policy skip, when it is %s, what skip does',
    async (state) => {
      await append(writer, minor('a'), thing('a'));
      await putInto(owner, state, 'a#1');
      await putInto(owner, 'blocked', 'a#2');
      expect(await setAside('a#1')).toBe(await positionOf(owner, 'a#1†'));
      expect(await statesOf(owner)).toEqual({ 'a#1': 'set_aside', 'a#1†': 'pending', 'a#2': 'pending' });
      expect(await audits()).toMatchObject([
        { actor: 'sealed_relay', act: 'set_aside', detail: { last_error: 'Odd: as the test wants it' } },
      ]);
    },
  );

  it('refuses a type with the policy block, and a tombstone', async () => {
    await append(writer, thing('a'), minor('b'));
    await setAside('b#1');
    for (const place of ['a#1', 'b#1†']) await expect(setAside(place)).rejects.toMatchObject({ code: 'OB006' });
    expect(await statesOf(owner)).toEqual({ 'a#1': 'pending', 'b#1': 'set_aside', 'b#1†': 'pending' });
  });

  it('leaves what was published or set aside meanwhile', async () => {
    await append(writer, minor('a'), minor('b'));
    await putInto(owner, 'published', 'a#1');
    await setAside('b#1');
    expect(await setAside('a#1')).toBeNull();
    expect(await setAside('b#1')).toBeNull();
    expect(await statesOf(owner)).toEqual({ 'a#1': 'published', 'b#1': 'set_aside', 'b#1†': 'pending' });
  });

  it('does nothing for a relay that no longer holds the partition', async () => {
    await append(writer, minor('a'));
    const { rows } = await owner.query(`update outbox.partition
          set lease_owner = gen_random_uuid(), lease_expires_at = now() + interval '1 minute' returning lease_owner`);
    expect(await setAside('a#1', '00000000-0000-4000-8000-000000000000')).toBeNull();
    expect(await statesOf(owner)).toEqual({ 'a#1': 'pending' });
    const holder = await owner.query(
      `select lease_owner from outbox.partition where number = (select partition from outbox.delivery)`,
    );
    expect(rows.length).toBe(64);
    expect(await setAside('a#1', holder.rows[0].lease_owner)).not.toBeNull();
    await owner.query('update outbox.partition set lease_owner = null, lease_expires_at = null');
  });
});

describe('unblock', () => {
  const aggregate = (aggregateId: string) => ({ destination: 'queue', aggregateType: 'thing', aggregateId });

  it('lets go what is blocked with nothing parked below it; the monitor counts that as orphaned', async () => {
    await append(writer, ...Array.from({ length: 4 }, () => thing('a')));
    await putInto(owner, 'blocked', 'a#1', 'a#2', 'a#4');
    await putInto(owner, 'parked', 'a#3');
    await blockedChain('b', 3);
    const orphaned = async (): Promise<unknown> =>
      (await readLag(monitor)).destinations.map((it) => [it.destination, it.blocked, it.orphaned]);
    expect(await orphaned()).toEqual([
      ['bus', 0, 0],
      ['queue', 5, 2],
    ]);
    expect(await unblock(operator, aggregate('a'), 'the head is gone')).toBe(2);
    expect(await orphaned()).toEqual([
      ['bus', 0, 0],
      ['queue', 3, 0],
    ]);
    expect(await statesOf(owner)).toMatchObject({
      'a#1': 'pending',
      'a#2': 'pending',
      'a#3': 'parked',
      'a#4': 'blocked',
    });
  });

  it('is refused while the head is parked, and names it', async () => {
    await blockedChain('a', 2);
    const head = await positionOf(owner, 'a#1');
    await expect(unblock(operator, aggregate('a'), 'r')).rejects.toEqual(
      refusal('NOT_IN_STATE', new RegExp(`waits behind delivery ${head}, which is parked.*Redrive or skip`)),
    );
    expect(await statesOf(owner)).toEqual({ 'a#1': 'parked', 'a#2': 'blocked' });
  });

  it('is refused where nothing is blocked, and where there is no such destination', async () => {
    await append(writer, thing('a'));
    await expect(unblock(operator, aggregate('a'), 'r')).rejects.toEqual(refusal('NOT_IN_STATE', /nothing of this/));
    await expect(unblock(operator, { ...aggregate('a'), destination: 'nowhere' }, 'r')).rejects.toEqual(
      refusal('DELIVERY_UNKNOWN', /no destination/),
    );
    expect(await audits()).toEqual([]);
  });
});

describe('every act', () => {
  it('is written to the audit: who, what, why, and never a payload', async () => {
    await append(writer, thing('a', { canary: 'payload' }), thing('b', { canary: 'payload' }), thing('c'));
    await putInto(owner, 'parked', 'a#1', 'b#1');
    await putInto(owner, 'blocked', 'c#1');
    await redrive(operator, await positionOf(owner, 'a#1'), 'INC-1');
    await skip(operator, await positionOf(owner, 'b#1'), 'INC-2');
    await unblock(operator, { destination: 'queue', aggregateType: 'thing', aggregateId: 'c' }, 'INC-3');
    await listParked(operator);
    const written = await audits();
    expect(written.map(({ actor, act, detail }) => [actor, act, detail['reason'], detail['aggregate_id']])).toEqual([
      ['sealed_operator', 'redrive', 'INC-1', 'a'],
      ['sealed_operator', 'skip', 'INC-2', 'b'],
      ['sealed_operator', 'unblock', 'INC-3', 'c'],
      ['sealed_operator', 'list_parked', undefined, undefined],
    ]);
    expect(written[0]?.detail).toMatchObject({
      destination: 'queue',
      type: 'thing.happened',
      sequence: 1,
      attempts: 12,
      last_error: 'Odd: as the test wants it',
      became: 'pending',
    });
    expect(JSON.stringify(written)).not.toContain('canary');
  });

  it('needs a reason of 1 to 500 characters', async () => {
    await blockedChain('a', 1);
    const position = await positionOf(owner, 'a#1');
    for (const reason of ['', '  ', 'x'.repeat(501)]) {
      await expect(redrive(operator, position, reason)).rejects.toEqual(refusal('OPERATION_ARGUMENT', /^reason must/));
      await expect(skip(operator, position, reason)).rejects.toEqual(refusal('OPERATION_ARGUMENT', /^reason must/));
    }
    expect(await statesOf(owner)).toEqual({ 'a#1': 'parked' });
    await expect(redrive(operator, position, 'ğ'.repeat(500))).resolves.toMatchObject({ run: 1 });
  });

  it('says that there is no such delivery', async () => {
    await expect(redrive(operator, '999999999', 'r')).rejects.toEqual(
      refusal('DELIVERY_UNKNOWN', /no delivery 999999999\. Nothing was changed\./),
    );
    await expect(skip(operator, '-1', 'r')).rejects.toThrow(OperationError);
  });

  it('belongs to operators: others are told which role they lack', async () => {
    await blockedChain('a', 1);
    const position = await positionOf(owner, 'a#1');
    for (const user of [relay, monitor, writer]) {
      await expect(redrive(user, position, 'r')).rejects.toEqual(
        refusal('OPERATION_FORBIDDEN', /role outbox_operator/),
      );
    }
    expect(await statesOf(owner)).toEqual({ 'a#1': 'parked' });
  });

  it('is refused in a transaction whose snapshot could be of before its lock', async () => {
    await blockedChain('a', 1);
    const client = await database.client('sealed_operator');
    for (const level of ['repeatable read', 'serializable']) {
      await client.query(`begin isolation level ${level}`);
      await expect(redrive(client, await positionOf(owner, 'a#1'), 'r')).rejects.toEqual(
        refusal('TRANSACTION_ISOLATION', /read committed/),
      );
      await client.query('rollback');
    }
  });

  it('is kept by a crash although the session says it need not be, waits 5 s at most, and may stay open for 10 s', async () => {
    await blockedChain('a', 1);
    const client = await database.client('sealed_operator');
    await client.query('set synchronous_commit = off');
    await client.query('begin');
    await redrive(client, await positionOf(owner, 'a#1'), 'r');
    const { rows } = await client.query(
      `select current_setting('synchronous_commit') as durable, current_setting('lock_timeout') as wait,
              current_setting('idle_in_transaction_session_timeout') as idle`,
    );
    expect(rows).toEqual([{ durable: 'on', wait: '5s', idle: '10s' }]);
    await client.query('rollback');
    expect((await client.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: 'off' }]);
  });
});

describe('listParked', () => {
  it('says where a delivery belongs, why it is parked and what waits behind it, and nothing of its payload', async () => {
    await append(writer, thing('a', { canary: 'payload' }), thing('a'), thing('a'));
    await putInto(owner, 'parked', 'a#1');
    await putInto(owner, 'blocked', 'a#2', 'a#3');
    const { parked, next } = await listParked(operator, { destination: 'queue' });
    expect(next).toBeNull();
    expect(parked).toEqual([
      {
        position: await positionOf(owner, 'a#1'),
        eventId: expect.any(String),
        destination: 'queue',
        type: 'thing.happened',
        schemaVersion: 1,
        whenParked: 'block',
        aggregateType: 'thing',
        aggregateId: 'a',
        sequence: 1n,
        attempts: 12,
        run: 0,
        lastError: 'Odd: as the test wants it',
        createdAt: expect.any(Date),
        blockedBehind: 2,
      },
    ]);
    expect((await listParked(operator, { destination: 'bus' })).parked).toEqual([]);
  });

  it('gives pages that neither repeat nor leave out, although some is redriven between them', async () => {
    await append(writer, ...Array.from({ length: 7 }, (_, index) => thing(`p${index}`)));
    await putInto(owner, 'parked', ...Array.from({ length: 7 }, (_, index) => `p${index}#1`));
    const seen: ParkedDelivery[] = [];
    let after: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof listParked>> = await listParked(operator, {
        limit: 3,
        ...(after !== null && { after }),
      });
      seen.push(...page.parked);
      for (const { position } of page.parked) await redrive(operator, position, 'r');
      after = page.next;
    } while (after !== null);
    expect(seen.map(({ aggregateId }) => aggregateId)).toEqual(['p0', 'p1', 'p2', 'p3', 'p4', 'p5', 'p6']);
  });

  it('refuses a limit beyond a thousand, and a destination that is not there', async () => {
    for (const limit of [0, 1001]) {
      await expect(listParked(operator, { limit })).rejects.toEqual(
        refusal('OPERATION_ARGUMENT', /between 1 and 1000/),
      );
    }
    await expect(listParked(operator, { destination: 'nowhere' })).rejects.toMatchObject({ code: 'DELIVERY_UNKNOWN' });
  });
});
