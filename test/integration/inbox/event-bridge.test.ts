import { randomUUID } from 'node:crypto';
import type { Context } from 'aws-lambda';
import { beforeAll, describe, expect, it } from 'vitest';
import { counterConsumer, createEffects, effectHandler, effectsOf, heldOf } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { contextFor, drainOf, invoke, standardRecord } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

/** What EventBridge makes of an envelope that our publisher sends: `detail-type` is its type, `source` its source. */
function bridged(body: string) {
  const detail = JSON.parse(body) as { type: string; source: string };
  return {
    version: '0',
    id: randomUUID(),
    'detail-type': detail.type,
    source: detail.source,
    account: '000000000000',
    time: '2026-11-30T09:14:07Z',
    region: 'eu-central-1',
    resources: [],
    detail,
  };
}

const invokeDirectly = (handler: unknown, event: object): Promise<unknown> =>
  (handler as (event: object, context: Context) => Promise<unknown>)(event, contextFor(30_000));

describe.each(['any', 'latest', 'strict'] as const)('an event that came through EventBridge, in mode %s', (mode) => {
  it('is applied once: from a queue with and without the input path, and handed over directly', async () => {
    const pool = database.pool('sealed_ledger');
    const name = `bridge-${mode}`;
    const { handler, metrics } = counterConsumer({ name, mode, pool });
    const [one, two, three] = [1, 2, 3].map((sequence) => counterEnvelope({ counter: 'a', sequence }));
    expect(await invoke(handler, [standardRecord(one!)])).toEqual([]);
    expect(await invoke(handler, [standardRecord(JSON.stringify(bridged(two!)))])).toEqual([]);
    expect(await invokeDirectly(handler, bridged(three!))).toEqual({ batchItemFailures: [] });
    for (const body of [one, two, three]) await invokeDirectly(handler, bridged(body!));
    expect((await effectsOf(pool, name)).map(({ sequence }) => sequence)).toEqual(['1', '2', '3']);
    expect(metrics.sum('Repeats')).toBe(3);
  });
});

describe('an event that EventBridge hands to the function itself', () => {
  it('is held with the first failure of its handler, tried again from there, and waits for a person after the last', async () => {
    const pool = database.pool('sealed_ledger');
    const failures = [Object.assign(new Error('busy'), { code: '40P01' }), new Error('no'), new Error('no')];
    const { handler } = counterConsumer({
      name: 'direct-fails',
      mode: 'strict',
      pool,
      attempts: 2,
      handlers: { 'counter.added': () => Promise.reject(failures.shift() ?? new Error('no')) },
    });
    const event = bridged(counterEnvelope({ counter: 'a', sequence: 1 }));
    await expect(invokeDirectly(handler, event)).rejects.toMatchObject({ code: 'NOT_APPLIED' });
    expect(await invokeDirectly(handler, event)).toEqual({ batchItemFailures: [] });
    const held = async () =>
      (
        await pool.query(
          `select attempts, queued, due_at::text as due from inbox.held_event where consumer = 'direct-fails'`,
        )
      ).rows;
    // The same invocation goes on with what is due.
    expect(await held()).toEqual([{ attempts: 2, queued: false, due: 'infinity' }]);
    expect(failures).toEqual([]);
    expect(await heldOf(pool, 'direct-fails')).toEqual([{ counter: 'a', sequence: '1', reason: 'failing' }]);
  });

  it('that was held is applied when its handler takes it again', async () => {
    const pool = database.pool('sealed_ledger');
    let fails = true;
    const { handler } = counterConsumer({
      name: 'direct-again',
      mode: 'strict',
      pool,
      handlers: {
        'counter.added': async (event, context) => {
          if (fails && event.sequence === 1n) {
            fails = false;
            throw new Error('no');
          }
          await effectHandler('direct-again')(event, context);
        },
      },
    });
    await invokeDirectly(handler, bridged(counterEnvelope({ counter: 'a', sequence: 1 })));
    await invokeDirectly(handler, bridged(counterEnvelope({ counter: 'a', sequence: 2 })));
    await drainOf(handler);
    expect((await effectsOf(pool, 'direct-again')).map(({ sequence }) => sequence)).toEqual(['1', '2']);
    expect(await heldOf(pool, 'direct-again')).toEqual([]);
  });

  it('is kept under its own id when it carries no envelope', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler } = counterConsumer({ name: 'direct-foreign', mode: 'any', pool });
    const event = { ...bridged('{}'), 'detail-type': 'Scheduled Event', source: 'aws.events' };
    await invokeDirectly(handler, event);
    const { rows } = await pool.query(
      `select event_id, reason from inbox.held_event where consumer = 'direct-foreign'`,
    );
    expect(rows).toEqual([{ event_id: event.id, reason: 'malformed' }]);
  });

  it('makes the invocation fail while the database fails', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler } = counterConsumer({
      name: 'direct-retry',
      mode: 'any',
      pool,
      handlers: {
        'counter.added': async (event, context) => {
          await effectHandler('direct-retry')(event, context);
          throw Object.assign(new Error('busy'), { code: '55P03' });
        },
      },
    });
    await expect(
      invokeDirectly(handler, bridged(counterEnvelope({ counter: 'a', sequence: 1 }))),
    ).rejects.toMatchObject({ code: 'NOT_APPLIED' });
    expect(await heldOf(pool, 'direct-retry')).toEqual([]);
  });
});
