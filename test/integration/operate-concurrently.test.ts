import type pg from 'pg';
import { beforeEach, describe, expect, it } from 'vitest';
import { redrive, runRelay, skip } from '../../shared/outbox/index.ts';
import { positionOf, putInto, statesOf, waitsFor } from '../support/chain.ts';
import { testDatabase } from '../support/database.ts';
import {
  append,
  drain,
  installCatalogue,
  orderBreaks,
  places,
  recordingPublisher,
  relayOptions,
  thing,
} from '../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const operator = database.pool('sealed_operator', 4);

beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay, outbox.audit');
  await owner.query('update outbox.partition set lease_owner = null, lease_expires_at = null');
  await installCatalogue(owner);
  await append(writer, thing('a'), thing('a'), thing('a'));
  await putInto(owner, 'parked', 'a#1');
  await putInto(owner, 'blocked', 'a#2', 'a#3');
});

/** A relay in the middle of a settle: it holds the partition `for share` and has changed `place`. */
async function settling(place: string, change: string): Promise<pg.Client> {
  const relay = await database.client('sealed_relay');
  await relay.query('begin');
  await relay.query(
    `select from outbox.partition where number = (select partition from outbox.delivery limit 1) for share`,
  );
  await relay.query(`update outbox.delivery set ${change} where position = $1`, [await positionOf(owner, place)]);
  return relay;
}

describe('an act and a relay that settles at the same time', () => {
  it('a late packet was accepted after all: redrive and skip wait for the settle, see "published", and refuse', async () => {
    const position = await positionOf(owner, 'a#1');
    for (const act of [redrive, skip]) {
      await putInto(owner, 'parked', 'a#1');
      const relay = await settling('a#1', `state = 'published', published_at = clock_timestamp()`);
      const acting = act(operator, position, 'r').then(
        () => 'done',
        (error: unknown) => (error as { code?: string }).code,
      );
      await waitsFor(owner, relay);
      await relay.query('commit');
      expect(await acting).toBe('NOT_IN_STATE');
      expect(await statesOf(owner)).toEqual({ 'a#1': 'published', 'a#2': 'blocked', 'a#3': 'blocked' });
    }
  });

  it('the relay parks a second head meanwhile: redrive sees it and keeps what lies behind it blocked', async () => {
    await putInto(owner, 'pending', 'a#2');
    const relay = await settling('a#2', `state = 'parked'`);
    const acting = redrive(operator, await positionOf(owner, 'a#1'), 'r');
    await waitsFor(owner, relay);
    await relay.query('commit');
    expect(await acting).toEqual({ state: 'pending', run: 1, unblocked: 0 });
    expect(await statesOf(owner)).toEqual({ 'a#1': 'pending', 'a#2': 'parked', 'a#3': 'blocked' });
  });

  it('"published" wins over a redrive that committed while the settle waited', async () => {
    const client = await database.client('sealed_operator');
    await client.query('begin');
    await redrive(client, await positionOf(owner, 'a#1'), 'r');
    const relay = database.pool('sealed_relay');
    const settle = relay.query(`update outbox.delivery set state = 'published' where position = $1`, [
      await positionOf(owner, 'a#1'),
    ]);
    await waitsFor(owner, client);
    await client.query('commit');
    await settle;
    expect(await statesOf(owner)).toEqual({ 'a#1': 'published', 'a#2': 'pending', 'a#3': 'pending' });
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#2', 'a#3']);
  });

  it('the relay sets aside what it parked by policy while operators act on the same partition: nobody is the victim of a deadlock', async () => {
    await installCatalogue(owner, [{ type: 'thing.happened' }, { type: 'thing.minor', when_parked: 'skip' }]);
    await owner.query('truncate outbox.delivery, outbox.event, outbox.stream');
    const relay = database.pool('sealed_relay', 4);
    for (let round = 0; round < 15; round += 1) {
      await append(writer, thing('m', {}, { type: 'thing.minor' }), thing('m'));
      const { rows } = await owner.query(
        `update outbox.delivery set state = 'parked', last_error = 'Odd: r' where state = 'pending' and sequence % 2 = 1
         returning position, destination, aggregate_key`,
      );
      const { position, destination, aggregate_key: key } = rows[0];
      const applying = Array.from({ length: 2 }, () =>
        relay.query('select outbox.apply_parking($1, $2)', [destination, [key]]),
      );
      const acting = [redrive, skip].map((act) => act(operator, position, 'r').catch((error: unknown) => error));
      await Promise.all(applying);
      for (const outcome of await Promise.all(acting)) {
        if (outcome instanceof Error) expect(outcome).toMatchObject({ code: 'NOT_IN_STATE' });
      }
      await owner.query(`update outbox.delivery set state = 'published' where state = 'pending'`);
    }
    expect(new Set(Object.values(await statesOf(owner)))).toEqual(new Set(['published', 'set_aside']));
  });

  it('does not wait for ever', async () => {
    const relay = await settling('a#2', 'attempts = attempts');
    const client = await database.client('sealed_operator');
    await client.query(`set lock_timeout = '50ms'`);
    await expect(redrive(client, await positionOf(owner, 'a#1'), 'r')).rejects.toMatchObject({
      code: 'OPERATION_BUSY',
      message: expect.stringMatching(/Nothing was changed/),
    });
    await relay.query('rollback');
    expect(await statesOf(owner)).toMatchObject({ 'a#1': 'parked' });
  });
});

describe('two operators at once', () => {
  it.each([
    [redrive, redrive],
    [redrive, skip],
    [skip, skip],
  ])('%o and %o of one delivery: one acts, the other is told', async (first, second) => {
    const position = await positionOf(owner, 'a#1');
    const outcomes = await Promise.allSettled([first(operator, position, 'one'), second(operator, position, 'two')]);
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 'NOT_IN_STATE' } });
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2', 'a#3']);
  });
});

describe('an act and a writer at the same time', () => {
  it('neither waits for the other, and what both did goes out in order', async () => {
    const early = await database.client('sealed_writer');
    await early.query('begin');
    await append(early, thing('a'));
    const client = await database.client('sealed_operator');
    await client.query('begin');
    // The writer's transaction is open here …
    await redrive(client, await positionOf(owner, 'a#1'), 'r');
    await early.query('commit');
    // … and here the operator's is.
    await append(writer, thing('a'));
    await client.query('commit');
    expect(new Set(Object.values(await statesOf(owner)))).toEqual(new Set(['pending']));
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2', 'a#3', 'a#4', 'a#5']);
  });

  it('under a running relay: whatever is parked, redriven, skipped and appended meanwhile, the order holds and nothing is left', async () => {
    const refuseOnce = new Set<string>();
    const queue = recordingPublisher((message) => {
      const { subject, sequence, type } = JSON.parse(message.body);
      const place = `${subject}#${sequence}`;
      if (type === 'outbox.skipped' || Number(sequence) % 5 !== 2 || refuseOnce.has(place)) {
        return { ok: true, messageId: 'm' };
      }
      refuseOnce.add(place);
      return { ok: false, code: 'InvalidMessageContents', reason: 'as the test wants it' };
    });
    const stop = new AbortController();
    const running = runRelay(relayOptions(database, { queue }, { mode: 'continuous', signal: stop.signal }));
    let acts = 0;
    let written = 0;
    const unfinished = async (): Promise<number> =>
      (await owner.query(`select from outbox.delivery where state not in ('published', 'set_aside')`)).rowCount ?? 0;
    const deadline = Date.now() + 40_000;
    while (Date.now() < deadline && (written < 20 || (await unfinished()) > 0)) {
      if (written < 20) {
        await append(writer, ...Array.from({ length: 4 }, (_, index) => thing(`w${index}`)));
        written += 1;
      }
      const { rows } = await owner.query(`select position from outbox.delivery where state = 'parked'`);
      await Promise.all(
        rows.map(({ position }) => (acts++ % 2 === 0 ? redrive : skip)(operator, position, 'r').catch(() => {})),
      );
    }
    stop.abort();
    await running;
    expect(await unfinished()).toBe(0);
    expect(acts).toBeGreaterThanOrEqual(12);
    expect(orderBreaks(queue.accepted)).toBe(0);
    // Each place once: itself, or the tombstone that took it.
    const sent = places(queue.accepted).filter((place) => place.startsWith('w'));
    expect(sent.toSorted()).toEqual(
      Array.from({ length: 4 }, (_, w) => Array.from({ length: 20 }, (_, n) => `w${w}#${n + 1}`))
        .flat()
        .toSorted(),
    );
  });
});
