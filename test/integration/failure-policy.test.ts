import { DeleteMessageCommand } from '@aws-sdk/client-sqs';
import { beforeEach, describe, expect, it } from 'vitest';
import { listParked, PublishError, readLag, redrive, runRelay, skip, unblock } from '../../shared/outbox/index.ts';
import { deliveriesOf, positionOf, putInto, statesOf } from '../support/chain.ts';
import { testDatabase } from '../support/database.ts';
import {
  ACCEPTED,
  append,
  drain,
  emptyOutbox,
  installCatalogue,
  places,
  QUEUE,
  recordingPublisher,
  refused,
  relayOptions,
  thing,
} from '../support/outbox.ts';
import { type TestQueue, testQueue } from '../support/queue.ts';
import { recordingLog } from '../support/recorders.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const operator = database.pool('sealed_operator');
const monitor = database.pool('sealed_monitor');

beforeEach(async () => {
  await emptyOutbox(owner);
  await installCatalogue(owner, [{ type: 'thing.happened' }, { type: 'thing.minor', when_parked: 'skip' }]);
});

const poison = () =>
  recordingPublisher((message) =>
    JSON.parse(message.body).data.poison === true ? refused('InvalidMessageContents') : ACCEPTED,
  );
const queueLag = async () => (await readLag(monitor)).destinations.find(({ destination }) => destination === 'queue');

describe('case 9: a parked head', () => {
  it('with block: the later ones are held, others flow; a redrive of the mended one sends all in order', async () => {
    await append(writer, thing('a', { poison: true }), thing('a'), thing('a'), thing('other'));
    const queue = poison();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['other#1']);
    expect(await statesOf(owner)).toMatchObject({ 'a#1': 'parked', 'a#2': 'blocked', 'a#3': 'blocked' });
    await append(writer, thing('a'));
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['other#1']);
    // Held, and no lag: the alarm is the one for parked events.
    expect(await queueLag()).toMatchObject({
      pending: 0,
      oldestPendingAgeSeconds: 0,
      parked: 1,
      blocked: 3,
      orphaned: 0,
    });

    const [head] = (await listParked(operator)).parked;
    expect(head).toMatchObject({
      destination: 'queue',
      aggregateId: 'a',
      lastError: 'InvalidMessageContents: as the test wants it',
    });
    await redrive(operator, head?.position ?? '', 'the queue was mended');
    const mended = recordingPublisher();
    await drain(database, mended);
    expect(places(mended.accepted)).toEqual(['a#1', 'a#2', 'a#3', 'a#4']);
    expect(await queueLag()).toMatchObject({ pending: 0, parked: 0, blocked: 0, orphaned: 0 });
  });

  it('with block: a skip lets the later ones go behind a tombstone', async () => {
    await append(writer, thing('a', { poison: true }), thing('a'), thing('a'));
    const queue = poison();
    await drain(database, queue);
    const [head] = (await listParked(operator)).parked;
    await skip(operator, head?.position ?? '', 'lost cause');
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2', 'a#3']);
    const [tombstone] = queue.accepted.map(({ body }) => JSON.parse(body));
    expect(tombstone).toMatchObject({ type: 'outbox.skipped', sequence: '1', data: {}, causationid: head?.eventId });
    expect(tombstone.id).not.toBe(head?.eventId);
  });

  it('with skip: the relay sets it aside by itself, a tombstone goes in its place, and the later ones behind it', async () => {
    const minor = thing('a', { poison: true }, { type: 'thing.minor' });
    await append(writer, minor, thing('a'), thing('b'));
    const queue = poison();
    await drain(database, queue);
    await drain(database, queue);
    expect(places(queue.accepted).filter((place) => place.startsWith('a'))).toEqual(['a#1', 'a#2']);
    expect(JSON.parse(queue.accepted.find(({ type }) => type === 'outbox.skipped')?.body ?? '{}').sequence).toBe('1');
    expect(await statesOf(owner)).toEqual({
      'a#1': 'set_aside',
      'a#1†': 'published',
      'a#2': 'published',
      'b#1': 'published',
    });
    expect((await listParked(operator)).parked).toEqual([]);
    const { rows } = await owner.query(
      `select actor, detail ->> 'reason' as reason from outbox.audit where act = 'set_aside'`,
    );
    expect(rows).toEqual([{ actor: 'sealed_relay', reason: 'InvalidMessageContents: as the test wants it' }]);
  });

  it('follows the policy of the newest version of its type, whatever the version of the event said', async () => {
    await installCatalogue(owner, [{ type: 'thing.minor', when_parked: 'block' }]);
    await installCatalogue(owner, [{ type: 'thing.minor', when_parked: 'skip', schema_version: 2 }]);
    const old = (id: string) => thing(id, { poison: true }, { type: 'thing.minor', schema_version: 1 });
    await append(writer, old('a'), thing('a'));
    const queue = poison();
    await drain(database, queue);
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2']);
    await installCatalogue(owner, [{ type: 'thing.minor', when_parked: 'block', schema_version: 2 }]);
    await append(writer, old('b'), thing('b'));
    await drain(database, queue);
    expect(await statesOf(owner)).toMatchObject({ 'b#1': 'parked', 'b#2': 'blocked' });
  });

  it('one that is blocked although nothing is parked below it is counted, and goes after unblock', async () => {
    await append(writer, thing('a'), thing('a'));
    await putInto(owner, 'blocked', 'a#1', 'a#2');
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(queue.accepted).toEqual([]);
    expect(await queueLag()).toMatchObject({ pending: 0, blocked: 2, orphaned: 2 });
    await unblock(operator, { destination: 'queue', aggregateType: 'thing', aggregateId: 'a' }, 'r');
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2']);
  });

  it('a refused tombstone is parked, too, and a person accepts the gap', async () => {
    await append(writer, thing('a'), thing('a'));
    let refuse = true;
    const queue = recordingPublisher((message) =>
      refuse && JSON.parse(message.body).sequence === '1' ? refused('InvalidMessageContents') : ACCEPTED,
    );
    await drain(database, queue);
    await skip(operator, await positionOf(owner, 'a#1'), 'r');
    await drain(database, queue);
    expect(await statesOf(owner)).toMatchObject({ 'a#1': 'set_aside', 'a#1†': 'parked' });
    refuse = false;
    expect(await skip(operator, await positionOf(owner, 'a#1†'), 'gap accepted')).toMatchObject({ tombstone: null });
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#2']);
  });
});

describe('case 13: a message over the limit', () => {
  const text = (bytes: number) => ({ text: 'x'.repeat(bytes) });

  it('is refused at write, with the destination and the sizes; nothing is written', async () => {
    await installCatalogue(owner, [{ type: 'thing.happened' }], [{ ...QUEUE, max_bytes: 2048 }]);
    await expect(append(writer, thing('a', text(3000)))).rejects.toMatchObject({
      code: 'OB003',
      message: expect.stringMatching(/destination "queue": up to \d+ bytes with its envelope, at most 2048 fit/),
    });
    // The data alone would fit; with its envelope it does not.
    await expect(append(writer, thing('a', text(2000)))).rejects.toMatchObject({ code: 'OB003' });
    expect(await deliveriesOf(owner)).toEqual([]);
  });

  it('whose destination takes less than it did at write is parked with its reason, never dropped, and redriven once it fits', async () => {
    await append(writer, thing('big', text(3000)), thing('big'), thing('small'));
    const narrow = recordingPublisher(() => ACCEPTED, { bytes: 2048 });
    await drain(database, narrow);
    expect(places(narrow.accepted)).toEqual(['small#1']);
    const [parked] = (await listParked(operator)).parked;
    expect(parked).toMatchObject({
      aggregateId: 'big',
      sequence: 1n,
      lastError: expect.stringMatching(/^EventTooLarge: \d+ bytes, the destination takes 2048$/),
    });
    await redrive(operator, parked?.position ?? '', 'the limit was raised');
    const wide = recordingPublisher();
    await drain(database, wide);
    expect(places(wide.accepted)).toEqual(['big#1', 'big#2']);
    expect(JSON.parse(wide.accepted[0]?.body ?? '{}').data.text).toHaveLength(3000);
  });

  it('that the queue itself calls too long, or malformed, is parked with the code that it gave', async () => {
    await append(writer, thing('long'), thing('odd'));
    await drain(
      database,
      recordingPublisher((message) =>
        refused(message.groupId === 'long' ? 'MessageTooLong' : 'InvalidMessageContents'),
      ),
    );
    expect((await listParked(operator)).parked.map(({ aggregateId, lastError }) => [aggregateId, lastError])).toEqual([
      ['long', 'MessageTooLong: as the test wants it'],
      ['odd', 'InvalidMessageContents: as the test wants it'],
    ]);
  });
});

/** Takes everything that the queue has, and gives the bodies. */
async function received(queue: TestQueue): Promise<string[]> {
  const bodies: string[] = [];
  for (let batch = await queue.receive(); batch.length > 0; batch = await queue.receive()) {
    for (const { body, receiptHandle } of batch) {
      bodies.push(body);
      await queue.client.send(new DeleteMessageCommand({ QueueUrl: queue.url, ReceiptHandle: receiptHandle }));
    }
  }
  return bodies;
}

describe('case 18: a redrive within five minutes', () => {
  it('of what the queue had already is really delivered, with the same event id and body', async () => {
    const queue = await testQueue();
    await append(writer, thing('a', { n: 1 }));
    await drain(database, queue.publisher());
    const first = await received(queue);
    expect(first).toHaveLength(1);
    // As if the queue had taken it and the answer was lost twelve times.
    for (let time = 1; time <= 2; time += 1) {
      await putInto(owner, 'parked', 'a#1');
      expect(await redrive(operator, await positionOf(owner, 'a#1'), 'was it received?')).toMatchObject({ run: time });
      expect(await drain(database, queue.publisher())).toMatchObject({ published: 1 });
      expect(await received(queue)).toEqual(first);
    }
  });

  it('a retry, which is no redrive, is swallowed by the queue: that is what the new run is for', async () => {
    const queue = await testQueue();
    await append(writer, thing('a'));
    await drain(database, queue.publisher());
    expect(await received(queue)).toHaveLength(1);
    await owner.query(`update outbox.delivery set state = 'pending', xid = pg_current_xact_id()`);
    expect(await drain(database, queue.publisher())).toMatchObject({ published: 1 });
    expect(await received(queue)).toEqual([]);
  });
});

describe('an event that nobody can route any more', () => {
  it('because its destination has no publisher: waits, is charged nothing, and the lag sees it; goes once there is one', async () => {
    await append(writer, thing('a'));
    const log = recordingLog();
    await runRelay(relayOptions(database, {}, { log }));
    expect(await deliveriesOf(owner)).toMatchObject([
      { place: 'a#1', state: 'pending', attempts: 0, last_error: null },
    ]);
    expect(await queueLag()).toMatchObject({ pending: 1, parked: 0 });
    expect((await queueLag())?.oldestPendingAgeSeconds).toBeGreaterThan(0);
    expect(log.lines).toContainEqual(
      expect.objectContaining({ level: 'error', fields: expect.objectContaining({ destination: 'queue' }) }),
    );
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1']);
  });

  it('because its route was removed after it was written: it still goes where it was to go', async () => {
    await append(writer, thing('a'));
    await installCatalogue(
      owner,
      [{ type: 'thing.happened', destinations: ['elsewhere'] }],
      [{ name: 'elsewhere', kind: 'sqs' }],
    );
    await append(writer, thing('a'));
    const queue = recordingPublisher();
    const elsewhere = recordingPublisher();
    await runRelay(relayOptions(database, { queue, elsewhere }));
    expect([places(queue.accepted), places(elsewhere.accepted)]).toEqual([['a#1'], ['a#2']]);
  });
});

describe('an outage', () => {
  it.each(['AccessDenied', 'ExpiredToken', 'KmsDisabled', 'QueueDoesNotExist', 'ECONNREFUSED', 'ThrottlingException'])(
    '%s: nothing is marked, the lag grows, and a redrive has nothing to do',
    async (code) => {
      await append(writer, thing('a'), thing('a'));
      await drain(
        database,
        recordingPublisher(() => {
          throw new PublishError(code, 'as the test wants it');
        }),
      );
      expect(await deliveriesOf(owner)).toMatchObject([
        { state: 'pending', attempts: 0, last_error: null },
        { state: 'pending', attempts: 0, last_error: null },
      ]);
      expect(await queueLag()).toMatchObject({ pending: 2, parked: 0, blocked: 0 });
      await expect(redrive(operator, await positionOf(owner, 'a#1'), 'r')).rejects.toMatchObject({
        code: 'NOT_IN_STATE',
      });
    },
  );
});
