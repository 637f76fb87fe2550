import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { counterConsumer, createEffects, effectHandler, effectsOf, inboxOf } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { fifoRecord, invoke, standardRecord } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

describe('an effect happens once', () => {
  it('when the same message comes again, in a later batch and twice in one', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler, metrics, log } = counterConsumer({ name: 'again', pool });
    const first = counterEnvelope({ counter: 'a', sequence: 1 });
    const second = counterEnvelope({ counter: 'a', sequence: 2 });

    expect(await invoke(handler, [fifoRecord('a', first)])).toEqual([]);
    expect(await invoke(handler, [fifoRecord('a', first), fifoRecord('a', second), fifoRecord('a', second)])).toEqual(
      [],
    );

    expect(await effectsOf(pool, 'again')).toEqual([
      { counter: 'a', sequence: '1' },
      { counter: 'a', sequence: '2' },
    ]);
    expect(metrics.sum('Effects', { Consumer: 'again' })).toBe(2);
    expect(metrics.sum('Repeats', { Consumer: 'again' })).toBe(2);
    expect(log.lines.filter(({ level }) => level !== 'debug')).toEqual([]);
  });

  it.each(['any', 'strict'] as const)('when two invocations get it at the same time, in mode %s', async (mode) => {
    const name = `parallel-${mode}`;
    const one = counterConsumer({ name, mode, pool: database.pool('sealed_ledger') });
    const two = counterConsumer({ name, mode, pool: database.pool('sealed_ledger') });
    for (let sequence = 1; sequence <= 20; sequence += 1) {
      const body = counterEnvelope({ counter: 'a', sequence });
      const returned = await Promise.all([
        invoke(one.handler, [fifoRecord('a', body)]),
        invoke(two.handler, [fifoRecord('a', body)]),
      ]);
      expect(returned).toEqual([[], []]);
    }
    const effects = await effectsOf(database.pool('sealed_ledger'), name);
    expect(effects.map(({ sequence }) => Number(sequence))).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
    expect(one.metrics.sum('Repeats') + two.metrics.sum('Repeats')).toBe(20);
  });

  it('for each of two consumers of the same event', async () => {
    const pool = database.pool('sealed_ledger');
    const body = counterEnvelope({ counter: 'a', sequence: 1 });
    for (const name of ['left', 'right']) {
      const { handler } = counterConsumer({ name, pool });
      expect(await invoke(handler, [fifoRecord('a', body)])).toEqual([]);
      expect(await effectsOf(pool, name)).toHaveLength(1);
    }
  });

  it('when the handler fails after its effect: dedupe row, position and effect are rolled back, the retry applies it', async () => {
    const pool = database.pool('sealed_ledger');
    let failures = 1;
    const { handler, log, metrics } = counterConsumer({
      name: 'fails-once',
      pool,
      handlers: {
        'counter.added': async (event, context) => {
          await effectHandler('fails-once')(event, context);
          if (failures-- > 0) throw new TypeError('canary value');
        },
      },
    });
    const record = fifoRecord(
      'a',
      counterEnvelope({ counter: 'a', sequence: 1, data: { amount: 1, secret: 'canary' } }),
    );

    expect(await invoke(handler, [record])).toEqual([record.messageId]);
    expect(await inboxOf(pool, 'fails-once', 'a')).toEqual({ processed: 0, position: null });
    expect(await effectsOf(pool, 'fails-once')).toEqual([]);
    expect(log.lines).toMatchObject([
      {
        level: 'error',
        fields: {
          consumer: 'fails-once',
          class: 'handler',
          code: 'HANDLER_FAILED',
          errorName: 'TypeError',
          eventType: 'counter.added',
          aggregateId: 'a',
          sequence: '1',
          messageId: record.messageId,
        },
      },
    ]);
    expect(JSON.stringify(log.lines)).not.toContain('canary');
    expect(metrics.sum('Returned', { Class: 'handler' })).toBe(1);

    expect(await invoke(handler, [record])).toEqual([]);
    expect(await inboxOf(pool, 'fails-once', 'a')).toEqual({ processed: 1, position: '1' });
    expect(await effectsOf(pool, 'fails-once')).toHaveLength(1);
  });

  it('when the connection is cut between effect and commit', async () => {
    const pool = database.pool('sealed_ledger');
    const other = database.pool('sealed_ledger');
    let cuts = 1;
    const { handler, log } = counterConsumer({
      name: 'cut',
      pool,
      handlers: {
        'counter.added': async (event, context) => {
          await effectHandler('cut')(event, context);
          const { rows } = await context.tx.query('select pg_backend_pid() as pid');
          if (cuts-- > 0) await other.query('select pg_terminate_backend($1, 5000)', [rows[0].pid]);
        },
      },
    });
    const record = fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1 }));
    expect(await invoke(handler, [record])).toEqual([record.messageId]);
    expect(log.lines).toMatchObject([{ level: 'warn', fields: { class: 'retry' } }]);
    expect(await effectsOf(pool, 'cut')).toEqual([]);
    expect(await invoke(handler, [record])).toEqual([]);
    expect(await effectsOf(pool, 'cut')).toHaveLength(1);
  });

  it('when the connection is cut while the handler waits: the database failed, not the handler', async () => {
    const pool = database.pool('sealed_ledger');
    const other = database.pool('sealed_ledger');
    const { handler, log } = counterConsumer({
      name: 'cut-inside',
      pool,
      handlers: {
        'counter.added': async (_event, { tx }) => {
          const { rows } = await tx.query('select pg_backend_pid() as pid');
          await other.query('select pg_terminate_backend($1, 5000)', [rows[0].pid]);
          await tx.query('select 1').catch(() => {
            throw new Error('no code, as an ORM would');
          });
        },
      },
    });
    const record = fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1 }));
    expect(await invoke(handler, [record])).toEqual([record.messageId]);
    expect(log.lines).toMatchObject([{ fields: { class: 'retry', code: 'CONNECTION_LOST' } }]);
  });

  it('never lost when the handler swallows the error of a statement: PostgreSQL commits nothing then', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler, log } = counterConsumer({
      name: 'swallows',
      pool,
      handlers: {
        'counter.added': async (event, context) => {
          await effectHandler('swallows')(event, context);
          await context.tx.query('select 1 / 0').catch(() => {});
        },
      },
    });
    const record = fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1 }));
    expect(await invoke(handler, [record])).toEqual([record.messageId]);
    expect(log.lines).toMatchObject([{ fields: { class: 'handler', code: 'TRANSACTION_ABORTED' } }]);
    expect(await inboxOf(pool, 'swallows', 'a')).toEqual({ processed: 0, position: null });
  });

  it('on a standard queue, in mode any, in whatever order', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler, metrics } = counterConsumer({ name: 'standard', mode: 'any', pool });
    const bodies = [3, 1, 2, 1].map((sequence) =>
      counterEnvelope({ counter: 'a', sequence, id: `00000000-0000-7000-8000-00000000000${sequence}` }),
    );
    expect(
      await invoke(
        handler,
        bodies.map((body) => standardRecord(body)),
      ),
    ).toEqual([]);
    const effects = await effectsOf(pool, 'standard');
    expect(effects.map(({ sequence }) => sequence).toSorted()).toEqual(['1', '2', '3']);
    expect(metrics.sum('Repeats')).toBe(1);
    expect(await inboxOf(pool, 'standard', 'a')).toEqual({ processed: 3, position: null });
  });

  it('is measured from the time of the event to the effect, by the clock of the database', async () => {
    const { handler, metrics } = counterConsumer({ name: 'age', pool: database.pool('sealed_ledger') });
    const time = new Date(Date.now() - 60_000).toISOString();
    await invoke(handler, [fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1, time, id: randomUUID() }))]);
    expect(metrics.sum('EffectAge')).toBeGreaterThan(59);
    expect(metrics.sum('EffectAge')).toBeLessThan(90);
  });
});
