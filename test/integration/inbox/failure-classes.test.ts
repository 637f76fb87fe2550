import { beforeAll, expect, it } from 'vitest';
import { counterConsumer, createEffects, effectHandler, heldOf } from '../../support/counter-consumer.ts';
import { counterEnvelope, type CounterEvent } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { contextFor, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

/** What the handler does with an event of counter a. */
type Does = 'works' | 'throws' | 'deadlocks' | 'hangs';

interface Row {
  readonly class: string;
  readonly event: Partial<CounterEvent>;
  readonly does: Does;
  /** Of its last attempt, with two of them. */
  readonly becomes: 'returned' | 'acknowledged';
  readonly held?: string;
  readonly code?: string;
}

const DAYS_AGO = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();

/** The table of classes in docs/consumer.md. `denied` is there for sealed values; gap, late and their like are in modes.test.ts. */
const TABLE: readonly Row[] = [
  { class: 'none', event: {}, does: 'works', becomes: 'acknowledged' },
  { class: 'retry', event: {}, does: 'deadlocks', becomes: 'returned', code: '40P01' },
  { class: 'time', event: {}, does: 'hangs', becomes: 'returned', code: 'OUT_OF_TIME' },
  { class: 'handler', event: {}, does: 'throws', becomes: 'acknowledged', held: 'failing', code: 'HANDLER_FAILED' },
  {
    class: 'malformed',
    event: { data: { amount: 'x' } },
    does: 'works',
    becomes: 'acknowledged',
    held: 'malformed',
    code: 'EVENT_DATA_INVALID',
  },
  {
    class: 'unknown-type',
    event: { type: 'counter.exploded' },
    does: 'works',
    becomes: 'acknowledged',
    held: 'unknown-type',
    code: 'EVENT_TYPE_UNKNOWN',
  },
  {
    class: 'unknown-version',
    event: { version: 9 },
    does: 'works',
    becomes: 'acknowledged',
    held: 'unknown-version',
    code: 'EVENT_VERSION_UNKNOWN',
  },
  { class: 'too-old', event: { time: DAYS_AGO(36) }, does: 'works', becomes: 'acknowledged', held: 'too-old' },
];

it.each(TABLE)('like case 36: class $class with a handler that $does: $becomes, held as $held', async (row) => {
  const name = `class-${row.class}`;
  const pool = database.pool('sealed_ledger');
  const woken = Promise.withResolvers<void>();
  const { handler, log } = counterConsumer({
    name,
    pool,
    attempts: 2,
    handlers: {
      'counter.added': async (event, context) => {
        await effectHandler(name)(event, context);
        if (event.aggregateId !== 'a') return;
        if (row.does === 'throws') throw new Error('canary');
        if (row.does === 'deadlocks') throw Object.assign(new Error('canary'), { code: '40P01' });
        if (row.does === 'hangs') await woken.promise;
      },
    },
  });
  const record = fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1, ...row.event }));
  const attempt = () => invoke(handler, [record], contextFor(row.does === 'hangs' ? 1_500 : 30_000));
  await invoke(handler, []);
  await attempt();
  expect(await attempt()).toEqual(row.becomes === 'returned' ? [record.messageId] : []);
  woken.resolve();
  expect((await heldOf(pool, name)).map(({ reason }) => reason)).toEqual(row.held === undefined ? [] : [row.held]);
  const lines = JSON.stringify(log.lines.filter(({ level }) => level !== 'debug'));
  if (row.code !== undefined) expect(lines).toContain(row.code);
  expect(lines).not.toContain('canary');
  // Another aggregate goes its way.
  expect(await invoke(handler, [fifoRecord('b', counterEnvelope({ counter: 'b', sequence: 1 }))])).toEqual([]);
});
