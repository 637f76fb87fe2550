import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { describe, expect, it, vi } from 'vitest';
import { createOnce } from '../../../shared/inbox/once.ts';
import { testDatabase } from '../../support/database.ts';
import { callOf, CONSUMER, deliver, type DeliveryOptions, providerPerTest } from '../../support/mail-delivery.ts';

const database = await testDatabase();
const pool = database.pool('sealed_ledger');
const owner = database.pool('sealed_migrator');
const provider = providerPerTest();

const send = (eventId: string, options: DeliveryOptions = {}) => deliver(pool, provider.current, eventId, options);
const code = (wanted: string) => expect.objectContaining({ code: wanted });
const requests = () => provider.current.requests().length;
const mails = () => provider.current.mails().length;
/** Lets the time of the database pass for one call. */
const pass = (eventId: string, column: 'called_at' | 'lease_expires_at', seconds: number) =>
  owner.query(`update inbox.external_call set ${column} = ${column} - $2 * interval '1 second' where event_id = $1`, [
    eventId,
    seconds,
  ]);

describe('a delivery that dies', () => {
  /** Hands out this many connections, then none: a process that is killed, as the database sees it. */
  const dying = (connections: number) => {
    let left = connections;
    return {
      connect: async (): Promise<pg.PoolClient> => {
        if (left-- > 0) return pool.connect();
        throw new Error('killed');
      },
    };
  };

  it('between call and record leaves its lease, and the next one finds the answer when that is over', async () => {
    const eventId = randomUUID();
    await expect(send(eventId, { connections: dying(1) })).rejects.toMatchObject({
      code: 'CALL_NOT_WRITTEN',
      cause: { message: 'killed' },
    });
    expect(await callOf(database, eventId)).toMatchObject({ state: 'reserved', called: true, leased: true });
    await expect(send(eventId)).rejects.toEqual(code('CALL_LEASED'));

    await pass(eventId, 'lease_expires_at', 3_600);
    expect(await send(eventId)).toMatchObject({ id: provider.current.mails()[0]?.id });
    expect([requests(), mails()]).toEqual([1, 1]);
  });

  it('before it could call is not taken for one that has called where nothing was reserved', async () => {
    const eventId = randomUUID();
    await expect(send(eventId, { connections: dying(0) })).rejects.toMatchObject({
      code: 'CALL_NOT_WRITTEN',
      cause: { message: 'killed' },
    });
    await send(eventId);
    expect([requests(), provider.current.lookups()]).toEqual([1, 0]);
  });
});

describe('deliveries of one event at once', () => {
  it('do not both call: one waits for the other by coming again', async () => {
    const eventId = randomUUID();
    provider.current.plan('late');
    const first = send(eventId);
    await vi.waitUntil(() => requests() === 1);
    for (const unanswered of ['retry', 'hold'] as const) {
      await expect(send(eventId, { unanswered })).rejects.toEqual(code('CALL_LEASED'));
    }
    provider.current.release();
    const sent = await first;
    expect(await send(eventId)).toEqual(sent);
    expect(requests()).toBe(1);
  });

  it('call once in all, whoever is first', async () => {
    const until = async (eventId: string): Promise<unknown> => {
      for (;;) {
        try {
          return await send(eventId);
        } catch (error) {
          expect(error).toEqual(code('CALL_LEASED'));
        }
      }
    };
    for (let event = 1; event <= 15; event += 1) {
      const eventId = randomUUID();
      const answers = await Promise.all([until(eventId), until(eventId), until(eventId)]);
      expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
      expect(requests()).toBe(event);
    }
  });

  it('of which one was frozen past its lease give both the answer that was recorded first', async () => {
    const eventId = randomUUID();
    provider.current.plan('late');
    const frozen = send(eventId);
    await vi.waitUntil(() => requests() === 1);
    await pass(eventId, 'lease_expires_at', 3_600);
    const taken = await send(eventId);
    provider.current.release();
    expect(await frozen).toEqual(taken);
    expect(mails()).toBe(1);
  });

  it('of which both have an answer give the one that was recorded first', async () => {
    const eventId = randomUUID();
    const ask = (call: () => Promise<string>) =>
      createOnce({ connections: pool, consumer: CONSUMER, eventId, remainingMs: () => 100_000 })('ask', call, {
        unanswered: 'retry',
      });
    const called = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<string>();
    const frozen = ask(() => {
      called.resolve();
      return answer.promise;
    });
    await called.promise;
    await pass(eventId, 'lease_expires_at', 3_600);
    expect(await ask(async () => 'one')).toBe('one');
    answer.resolve('two');
    expect(await frozen).toBe('one');
    expect(await ask(async () => 'three')).toBe('one');
  });

  it('of which one was frozen before it repeated an unanswered call leave the call to the one that took over', async () => {
    const eventId = randomUUID();
    provider.current.plan('fail');
    await expect(send(eventId)).rejects.toEqual(code('CALL_UNANSWERED'));
    let connections = 0;
    const frozen = {
      connect: async () => {
        connections += 1;
        // The second one is for noting that it calls again: by then the lease is over and another delivery has it.
        if (connections === 2) {
          await pass(eventId, 'lease_expires_at', 3_600);
          provider.current.plan('late');
          taken = send(eventId);
          await vi.waitUntil(() => requests() === 2);
        }
        return pool.connect();
      },
    };
    let taken: Promise<unknown> | undefined;
    await expect(send(eventId, { connections: frozen })).rejects.toEqual(code('CALL_LEASED'));
    provider.current.release();
    await taken;
    expect([requests(), mails()]).toEqual([2, 1]);
    expect(await callOf(database, eventId)).toMatchObject({ state: 'done', calls: 2 });
  });
});
