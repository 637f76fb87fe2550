import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { beforeAll, describe, expect, it } from 'vitest';
import { counterConsumer, createEffects, effectHandler, effectsOf, inboxOf } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { contextFor, contextWith, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

/** Hangs after its effect with counter a, as long as `hangs`; `woken` resumes it, `over` tells when it has ended. */
function hangingAtA(consumer: string) {
  const entered = Promise.withResolvers<void>();
  const woken = Promise.withResolvers<void>();
  const over = Promise.withResolvers<unknown>();
  const state = { hangs: true };
  const handler: ReturnType<typeof effectHandler> = async (event, context) => {
    await effectHandler(consumer)(event, context);
    if (!state.hangs || event.aggregateId !== 'a') return;
    entered.resolve();
    await woken.promise;
    await context.tx.query('select 1').then(over.resolve, over.resolve);
  };
  return { state, entered, woken, over, handlers: { 'counter.added': handler } };
}

describe('case 34: a handler that does not end in time', () => {
  it('goes back to the queue alone, gives up its connection, and the retry processes it', async () => {
    const pool = database.pool('sealed_ledger', 1);
    const { state, handlers, woken, over } = hangingAtA('hangs');
    const { handler, log } = counterConsumer({ name: 'hangs', pool, handlers });
    const slow = fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1 }));
    const next = fifoRecord('b', counterEnvelope({ counter: 'b', sequence: 1 }));

    await invoke(handler, []); // registers and connects: the time below is the handler's alone
    expect(await invoke(handler, [slow, next], contextFor(2_500))).toEqual([slow.messageId, next.messageId]);
    expect(log.lines.filter(({ level }) => level !== 'debug')).toMatchObject([
      { fields: { class: 'time', code: 'OUT_OF_TIME', aggregateId: 'a' } },
      { fields: { count: 1 } },
    ]);

    state.hangs = false;
    expect(await invoke(handler, [slow, next])).toEqual([]);
    woken.resolve();
    expect(await over.promise).toBeInstanceOf(Error);
    expect(await effectsOf(pool, 'hangs')).toEqual([
      { counter: 'a', sequence: '1' },
      { counter: 'b', sequence: '1' },
    ]);
    expect(await inboxOf(pool, 'hangs', 'a')).toEqual({ processed: 2, position: '1' });
  });

  it('keeps what other groups of the batch have done', async () => {
    const pool = database.pool('sealed_ledger', 2);
    const { handlers, woken } = hangingAtA('others');
    const { handler } = counterConsumer({ name: 'others', pool, handlers });
    const slow = fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1 }));
    const quick = fifoRecord('b', counterEnvelope({ counter: 'b', sequence: 1 }));
    await invoke(handler, []);
    expect(await invoke(handler, [slow, quick], contextFor(2_500))).toEqual([slow.messageId]);
    expect(await effectsOf(pool, 'others')).toEqual([{ counter: 'b', sequence: '1' }]);
    woken.resolve();
  });

  it('is cut off at the next use when the process was frozen over its end', async () => {
    const pool = database.pool('sealed_ledger', 1);
    const { state, handlers, entered, woken, over } = hangingAtA('frozen');
    const { handler } = counterConsumer({ name: 'frozen', pool, handlers });
    const record = fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1 }));
    // Timers stand still in a frozen process: only the wall clock tells afterwards that the time is over.
    let remaining = 3_600_000;
    const frozen = invoke(
      handler,
      [record],
      contextWith(() => remaining),
    );
    await entered.promise;
    remaining = -1;
    state.hangs = false;

    expect(await invoke(handler, [record])).toEqual([]);
    expect(await frozen).toEqual([record.messageId]);
    woken.resolve();
    expect(await over.promise).toBeInstanceOf(Error);
    expect(await effectsOf(pool, 'frozen')).toHaveLength(1);
  });

  it('does not disturb another invocation of the process that still has time', async () => {
    const pool = database.pool('sealed_ledger', 2);
    const { handlers, entered, woken } = hangingAtA('both');
    const { handler } = counterConsumer({ name: 'both', pool, handlers });
    const first = invoke(handler, [fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1 }))]);
    await entered.promise;
    expect(await invoke(handler, [fifoRecord('b', counterEnvelope({ counter: 'b', sequence: 1 }))])).toEqual([]);
    woken.resolve();
    expect(await first).toEqual([]);
    expect(await effectsOf(pool, 'both')).toHaveLength(2);
  });

  it('leaves nothing behind when the process is killed', async () => {
    const pool = database.pool('sealed_ledger');
    const body = counterEnvelope({ counter: 'a', sequence: 1 });
    const child = spawn(
      process.execPath,
      ['test/support/hanging-consumer.ts', JSON.stringify(database.config('sealed_ledger')), JSON.stringify(body)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    await once(child.stdout, 'data');
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await effectsOf(pool, 'killed')).toEqual([]);

    const { handler, metrics } = counterConsumer({ name: 'killed', pool });
    expect(await invoke(handler, [fifoRecord('a', body)])).toEqual([]);
    expect(metrics.sum('Effects')).toBe(1);
    expect(await effectsOf(pool, 'killed')).toHaveLength(1);
  });
});

describe('an invocation with little time left', () => {
  it('starts no message and returns all that it has not started', async () => {
    const pool = database.pool('sealed_ledger');
    let remaining = 10_000;
    const { handler, log, metrics } = counterConsumer({
      name: 'short',
      pool,
      together: 1,
      margins: { startMs: 2_000, stopMs: 100 },
      handlers: {
        'counter.added': async (event, context) => {
          await effectHandler('short')(event, context);
          remaining = 1_500;
        },
      },
    });
    const records = [1, 2, 3].map((sequence) => fifoRecord('a', counterEnvelope({ counter: 'a', sequence })));
    const returned = await invoke(
      handler,
      records,
      contextWith(() => remaining),
    );
    expect(returned).toEqual(records.slice(1).map(({ messageId }) => messageId));
    expect(log.lines).toMatchObject([{ level: 'warn', fields: { count: 2 } }]);
    expect(metrics.sum('Returned', { Class: 'time' })).toBe(2);
    expect(await effectsOf(pool, 'short')).toHaveLength(1);
  });
});
