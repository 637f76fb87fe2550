import { beforeEach, describe, expect, it } from 'vitest';
import { runRelay } from '../../shared/outbox/index.ts';
import { testDatabase } from '../support/database.ts';
import { leaseClock, leaseCounts, passLeaseTime, until } from '../support/lease-clock.ts';
import { append, emptyOutbox, installCatalogue, orderBreaks, relayOptions, thing } from '../support/outbox.ts';
import { relayChild } from '../support/relay-child.ts';
import { sqsStub, type SqsStub } from '../support/sqs-stub.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');

beforeEach(async () => {
  await emptyOutbox(owner);
  await installCatalogue(owner);
});

const count = async (sql: string): Promise<number> => (await owner.query(sql)).rows[0].n;
const published = () => count(`select count(*)::integer as n from outbox.delivery where state = 'published'`);
const left = () => count(`select count(*)::integer as n from outbox.delivery where state <> 'published'`);
/** Seconds until the last lease is over; 0 when none is left. */
const leaseLeft = () =>
  count(
    `select greatest(0, max(extract(epoch from lease_expires_at - clock_timestamp())))::float8 as n from outbox.partition`,
  );
const isGone = async (): Promise<boolean> =>
  (await count(
    `select count(*)::integer as n from pg_stat_activity where usename = 'sealed_relay' and datname = current_database()`,
  )) === 0;

const appendThousand = () => append(writer, ...Array.from({ length: 1_000 }, (_, n) => thing(`a${n % 100}`)));

/** A relay of another slot, in this process. */
function standby(stub: SqsStub) {
  const stop = new AbortController();
  const running = runRelay(
    relayOptions(
      database,
      { queue: stub.publisher() },
      { mode: 'continuous', slot: 'standby', clock: leaseClock(), signal: stop.signal },
    ),
  );
  return async () => {
    stop.abort();
    await running;
  };
}

function idsOf(stub: SqsStub): string[] {
  return stub.arrived.map(({ body }) => JSON.parse(body).id);
}

describe('a relay that is killed in the middle of a thousand', () => {
  it('case 22: kill -9: another sends the rest as soon as the lease is over, and nothing that was settled', async () => {
    await appendThousand();
    const stub = await sqsStub({
      // It gets no answer to this call.
      onSend: async (send) => {
        if (send !== 30) return;
        killed.signal('SIGKILL');
        await killed.ended;
      },
    });
    const killed = relayChild(database, stub);
    expect(await killed.ended).toBe('SIGKILL');
    await until('its connection gone', isGone);
    const [arrived, settled] = [stub.arrived.length, await published()];
    expect(arrived).toBeGreaterThanOrEqual(300);
    expect(settled).toBeLessThan(1_000);
    // The longest that anybody has to wait.
    expect(await leaseLeft()).toBeLessThanOrEqual(30);

    const stop = standby(stub);
    await until(
      'the standby has come',
      async () => (await count('select count(*)::integer as n from outbox.relay where ended_at is null')) === 2,
    );
    expect(stub.arrived).toHaveLength(arrived);
    await passLeaseTime(owner, 30);
    await until('everything published', async () => (await left()) === 0);
    await stop();
    expect(new Set(idsOf(stub)).size).toBe(1_000);
    expect(orderBreaks(stub.arrived)).toBe(0);
    expect(stub.arrived).toHaveLength(1_000 + arrived - settled);
  });

  it('like case 22: killed between the acceptance of a call and its settlement: that call is repeated, in order, and no other', async () => {
    await append(writer, ...Array.from({ length: 30 }, (_, n) => thing(`b${n % 10}`)));
    const stub = await sqsStub();
    const killed = relayChild(database, stub, { crash: { point: 'after publish', occurrence: 1 } });
    expect(await killed.ended).toBe('SIGKILL');
    await until('its connection gone', isGone);
    expect([stub.arrived.length, await published()]).toEqual([10, 0]);
    await passLeaseTime(owner, 30);
    const stop = standby(stub);
    await until('everything published', async () => (await left()) === 0);
    await stop();
    expect(idsOf(stub)).toHaveLength(40);
    expect(new Set(idsOf(stub)).size).toBe(30);
    expect(new Set(idsOf(stub).slice(10, 20))).toEqual(new Set(idsOf(stub).slice(0, 10)));
    expect(orderBreaks(stub.arrived)).toBe(0);
  });
});

describe('a relay process that is frozen for longer than its lease, and thawed', () => {
  // Its own clocks cannot be moved, so its lease is a short one.
  const SHORT = { leaseSeconds: 3, timeoutMs: 500 };

  /** Its leases run out by themselves; that it is no longer counted as alive is a matter of the other one's lease. */
  async function leasesOver(): Promise<void> {
    await until('its leases over', async () => (await leaseLeft()) === 0);
    await passLeaseTime(owner, 31);
  }

  it('case 26: in mid-send: another goes on meanwhile; nothing out of order, nothing lost, repeats of what was in flight only', async () => {
    await appendThousand();
    const stub = await sqsStub({
      onSend: (send) => {
        if (send === 20) frozen.signal('SIGSTOP');
      },
    });
    const frozen = relayChild(database, stub, SHORT);
    await until('a call after which it stands', () => stub.sends >= 20);
    await leasesOver();
    const [arrived, settled] = [stub.arrived.length, await published()];
    const stop = standby(stub);
    await until('everything published', async () => (await left()) === 0);
    frozen.signal('SIGCONT');
    await until('both at work', async () => (await leaseCounts(owner)).length === 2);
    // What it had not settled, by the other one; and what it was about to write to the queue: four calls of ten.
    expect(stub.arrived.length).toBeGreaterThanOrEqual(1_000 + arrived - settled);
    expect(stub.arrived.length).toBeLessThanOrEqual(1_000 + arrived - settled + 40);
    await append(writer, ...Array.from({ length: 200 }, (_, n) => thing(`a${n % 100}`)));
    await until('everything published, again', async () => (await left()) === 0);
    frozen.signal('SIGTERM');
    expect(await frozen.ended).toBeNull();
    await stop();
    expect(new Set(idsOf(stub)).size).toBe(1_200);
    expect(orderBreaks(stub.arrived)).toBe(0);
  });

  it('like case 26: with nothing to do: what is written meanwhile is sent by another, and the thawed one gets its share again', async () => {
    const stub = await sqsStub();
    const frozen = relayChild(database, stub, SHORT);
    await until('all partitions leased', async () => (await leaseCounts(owner))[0] === 64);
    frozen.signal('SIGSTOP');
    await append(writer, ...Array.from({ length: 200 }, (_, n) => thing(`c${n}`)));
    await leasesOver();
    const stop = standby(stub);
    await until('everything published', async () => (await left()) === 0);
    frozen.signal('SIGCONT');
    await until('even shares', async () => String(await leaseCounts(owner)) === '32,32');
    await append(writer, ...Array.from({ length: 200 }, (_, n) => thing(`c${n}`)));
    await until('everything published, again', async () => (await left()) === 0);
    frozen.signal('SIGTERM');
    await frozen.ended;
    await stop();
    expect(new Set(idsOf(stub)).size).toBe(400);
    expect(orderBreaks(stub.arrived)).toBe(0);
  });
});
