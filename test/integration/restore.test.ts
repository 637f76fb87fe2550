import { beforeEach, describe, expect, it } from 'vitest';
import { redrive, restore, runRelay } from '../../shared/outbox/index.ts';
import { silentLog } from '../../shared/telemetry/index.ts';
import { deliveriesOf, positionOf, putInto, statesOf, waitsFor } from '../support/chain.ts';
import { counterConsumer, createEffects, effectsOf } from '../support/counter-consumer.ts';
import { testDatabase } from '../support/database.ts';
import { ageCluster, copyOutbox, pasteOutbox } from '../support/logical-copy.ts';
import { append, drain, installCatalogue, places, QUEUE, recordingPublisher, relayOptions } from '../support/outbox.ts';
import { testQueue } from '../support/queue.ts';
import { secondCluster } from '../support/second-cluster.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const operator = database.pool('sealed_operator');

/** A counter's event, through plain SQL. */
const added = (counter: string) => ({
  type: 'counter.added',
  aggregate_type: 'counter',
  aggregate_id: counter,
  data: { amount: 1 },
});

const COUNTER = [{ type: 'counter.added', aggregate_type: 'counter' }];

async function installCounters(db: Parameters<typeof installCatalogue>[0]): Promise<void> {
  await installCatalogue(db, COUNTER, [QUEUE]);
  await db.query(`update outbox.installation set source = '/counters', epoch = 0, cluster = null`);
}

beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay');
  await owner.query('update outbox.partition set lease_owner = null, lease_expires_at = null');
  await installCounters(owner);
});

const epochOf = (sequence: bigint): bigint => sequence >> 40n;
const placeOf = (sequence: bigint): bigint => sequence & ((1n << 40n) - 1n);

describe('a database that goes back in time, in another cluster', () => {
  it('case 32: the relay goes on, a strict consumer goes on, nothing is applied twice and nothing pending is lost', async () => {
    const queue = await testQueue();
    // The consumer's database is another one: it is not restored, and remembers what it has seen.
    const consumerDatabase = await testDatabase();
    await createEffects(consumerDatabase);
    const consumer = counterConsumer({ name: 'drill', pool: consumerDatabase.pool('sealed_ledger') });

    await append(writer, added('a'), added('a'));
    await drain(database, queue.publisher());
    await queue.consume(consumer.handler);

    // What the backup holds: two published, three pending, one parked with one blocked behind it.
    await ageCluster(owner, 3000);
    await append(writer, added('a'), added('b'), added('b'), added('p'), added('p'));
    await putInto(owner, 'parked', 'p#1');
    await putInto(owner, 'blocked', 'p#2');
    await owner.query(`update outbox.partition set lease_owner = gen_random_uuid(), lease_expires_at = 'infinity'`);
    await owner.query(`update outbox.installation set cluster = 'cluster-one'`);
    const backup = await copyOutbox(owner);
    await owner.query('update outbox.partition set lease_owner = null, lease_expires_at = null');

    // What it does not hold, but the consumer has seen.
    await drain(database, queue.publisher());
    await append(writer, added('a'), added('a'), added('new'));
    await drain(database, queue.publisher());
    await queue.consume(consumer.handler);
    const before = (await effectsOf(consumerDatabase.pool('sealed_ledger'), 'drill')).map(
      ({ counter, sequence }) => `${counter}#${sequence}`,
    );
    expect(before.toSorted()).toEqual(['a#1', 'a#2', 'a#3', 'a#4', 'a#5', 'b#1', 'b#2', 'new#1']);

    const cluster = await secondCluster();
    const restored = cluster.pool('sealed_migrator');
    await pasteOutbox(restored, backup);
    const future = `select count(*)::int as count from outbox.delivery
                     where state in ('pending', 'parked', 'blocked') and xid >= pg_snapshot_xmax(pg_current_snapshot())`;
    expect((await restored.query(future)).rows).toEqual([{ count: 5 }]);

    const relay = (): ReturnType<typeof runRelay> =>
      runRelay({
        connect: () => cluster.connect('sealed_relay'),
        publishers: { queue: queue.publisher() },
        log: silentLog,
        slot: 'drill',
        cluster: 'cluster-two',
        mode: 'drain',
      });
    await expect(relay()).rejects.toMatchObject({ code: 'RELAY_CLUSTER', message: expect.stringContaining('restore') });
    expect((await restored.query(`select from outbox.delivery where state = 'published'`)).rowCount).toBe(2);

    const { epoch, restamped } = await restore(cluster.pool('sealed_operator'), 'cluster-two', 'drill');
    expect(restamped).toBe(5);
    expect((await restored.query(future)).rows).toEqual([{ count: 0 }]);
    const { rows } = await restored.query(
      `select (select count(*)::int from outbox.partition where lease_owner is not null) as leased, cluster, epoch
         from outbox.installation`,
    );
    expect(rows).toEqual([{ leased: 0, cluster: 'cluster-two', epoch }]);

    // New events of known aggregates, of one that the backup does not know, and of one that nobody knew.
    const sequences = await append(
      cluster.pool('sealed_writer'),
      added('a'),
      added('b'),
      added('new'),
      added('newer'),
      added('a'),
    );
    expect(sequences.map(epochOf)).toEqual(sequences.map(() => BigInt(epoch)));
    // Above whatever the lost timeline may have used of this aggregate, and the first of the epoch: a strict consumer takes it.
    expect(sequences.map(placeOf)).toEqual([1n, 1n, 1n, 1n, 2n]);
    // The three that were pending in the backup, and the five new ones.
    expect(await relay()).toMatchObject({ published: 8, parked: 0, retried: 0 });
    await redrive(cluster.pool('sealed_operator'), await positionOf(restored, 'p#1'), 'mended');
    expect(await relay()).toMatchObject({ published: 2 });
    await queue.consume(consumer.handler);

    const effects = await effectsOf(consumerDatabase.pool('sealed_ledger'), 'drill');
    const after = effects.slice(before.length).map(({ counter, sequence }) => {
      const number = BigInt(sequence);
      return `${counter}#${epochOf(number) === 0n ? '' : 'epoch+'}${placeOf(number)}`;
    });
    expect(after.toSorted()).toEqual(
      ['a#epoch+1', 'b#epoch+1', 'new#epoch+1', 'newer#epoch+1', 'a#epoch+2', 'p#1', 'p#2'].toSorted(),
    );
    // Nothing went back as late or for a gap.
    expect(consumer.log.lines.filter(({ level }) => level !== 'info' && level !== 'debug')).toEqual([]);
    expect(consumer.metrics.sum('Returned')).toBe(0);
  });
});

describe('transaction ids of another cluster', () => {
  it('like case 32: are met also where nobody called restore, beside those of this one, in order', async () => {
    await append(writer, added('a'), added('a'), added('b'));
    await owner.query(`update outbox.delivery set xid = '900000000000' where sequence = 1`);
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted).toSorted()).toEqual(['a#1', 'a#2', 'b#1']);
    await append(writer, added('a'), added('b'));
    await drain(database, queue);
    expect(places(queue.accepted).filter((place) => place.startsWith('a'))).toEqual(['a#1', 'a#2', 'a#3']);
    expect(places(queue.accepted).filter((place) => place.startsWith('b'))).toEqual(['b#1', 'b#2']);
  });
});

describe('restore', () => {
  it('case 57: to an hour ago: new events get higher sequences than any that consumers saw, of each aggregate', async () => {
    await append(writer, added('a'), added('b'));
    const backup = await copyOutbox(owner);
    // The hour that will be lost.
    const lost = await append(writer, added('a'), added('a'), added('b'), added('new'));
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(queue.accepted).toHaveLength(6);

    await pasteOutbox(owner, backup);
    await restore(operator, 'cluster-one', 'to an hour ago');
    const again = await append(writer, added('a'), added('b'), added('new'));
    for (const sequence of again) for (const before of lost) expect(sequence).toBeGreaterThan(before);
    const after = recordingPublisher();
    await drain(database, after);
    // What the backup holds as pending was sent in the lost hour: it comes again under the same ids, and then the new ones.
    const seen = new Set(queue.accepted.map(({ eventId }) => eventId));
    expect(after.accepted.map(({ eventId }) => seen.has(eventId))).toEqual([true, true, false, false, false]);
    expect(after.accepted.slice(2).map(({ body }) => BigInt(JSON.parse(body).sequence))).toEqual(again);
  });

  it('like case 57: gives each restore of one backup an epoch of its own, and never a lower one', async () => {
    const { rows } = await owner.query(
      `select floor(extract(epoch from now() - '2026-01-01T00:00:00Z') / 300)::int as steps`,
    );
    const first = await restore(operator, 'cluster-two', 'r');
    // A second restore of the same backup starts from epoch 0 again, later: time tells the two apart.
    expect(first.epoch).toBeGreaterThanOrEqual(Math.max(1, rows[0].steps));
    expect(first.epoch).toBeLessThanOrEqual(Math.max(1, rows[0].steps) + 1);
    // Ahead of time, as when it was restored often or a clock was wrong: it counts on.
    await owner.query('update outbox.installation set epoch = 4000000');
    expect(await restore(operator, 'cluster-two', 'r')).toMatchObject({ epoch: 4_000_001 });
  });

  it('after a fail-over with loss, in the same cluster: what waits is sent, new events follow in order', async () => {
    await append(writer, added('a'), added('a'));
    const queue = recordingPublisher();
    const { epoch } = await restore(operator, 'cluster-one', 'failed over');
    await append(writer, added('a'));
    await drain(database, queue);
    const base = BigInt(epoch) << 40n;
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2', `a#${base + 1n}`]);
  });

  it('restamps many in one go, and leaves what is finished alone', async () => {
    await append(writer, ...Array.from({ length: 2000 }, (_, index) => added(`m${index}`)));
    await putInto(owner, 'published', 'm0#1', 'm1#1');
    await putInto(owner, 'set_aside', 'm2#1');
    const before = new Map((await deliveriesOf(owner)).map(({ place, xid }) => [place, xid]));
    expect(await restore(operator, 'c', 'r')).toMatchObject({ restamped: 1997 });
    const same = (await deliveriesOf(owner)).filter(({ place, xid }) => before.get(place) === xid);
    expect(same.map(({ place }) => place)).toEqual(['m0#1', 'm1#1', 'm2#1']);
  });

  it('waits for writers that have read the old epoch, and lets none append with it afterwards', async () => {
    const early = await database.client('sealed_writer');
    await early.query('begin');
    await append(early, added('a'));
    const impatient = await database.client('sealed_operator');
    await impatient.query(`set lock_timeout = '50ms'`);
    await expect(restore(impatient, 'c', 'r')).rejects.toMatchObject({ code: 'OPERATION_BUSY' });
    expect((await owner.query('select epoch from outbox.installation')).rows).toEqual([{ epoch: 0 }]);
    await early.query('commit');

    const restoring = await database.client('sealed_operator');
    await restoring.query('begin');
    const { epoch } = await restore(restoring, 'c', 'r');
    const late = append(writer, added('a'));
    await waitsFor(owner, restoring);
    await restoring.query('commit');
    expect(await late).toEqual([(BigInt(epoch) << 40n) + 1n]);
  });

  it('that fails leaves everything as it was', async () => {
    await append(writer, added('a'));
    const before = await deliveriesOf(owner);
    for (const cluster of ['', 'two words', 'x'.repeat(201)]) {
      await expect(restore(operator, cluster, 'r')).rejects.toMatchObject({ code: 'OPERATION_ARGUMENT' });
    }
    const client = await database.client('sealed_operator');
    await client.query('begin');
    await restore(client, 'c', 'r');
    await client.query('rollback');
    expect(await deliveriesOf(owner)).toEqual(before);
    expect((await owner.query('select epoch, cluster from outbox.installation')).rows).toEqual([
      { epoch: 0, cluster: null },
    ]);
  });

  it('ends relays of the past: they hold no lease and take no share', async () => {
    await owner.query(
      `insert into outbox.relay (owner, slot) select gen_random_uuid(), 'past-' || n from generate_series(1, 3) n`,
    );
    await owner.query(
      `update outbox.partition set lease_owner = (select owner from outbox.relay limit 1), lease_expires_at = 'infinity'`,
    );
    await append(writer, added('a'));
    await restore(operator, 'c', 'r');
    const queue = recordingPublisher();
    await runRelay(relayOptions(database, { queue }));
    expect(await statesOf(owner)).toEqual({ 'a#1': 'published' });
  });
});
