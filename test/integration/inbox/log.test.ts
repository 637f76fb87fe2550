import { inspect } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { counterConsumer, createEffects } from '../../support/counter-consumer.ts';
import { type CounterEvent, counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { contextFor, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

/** Stands in every value of a payload, and in everything that quotes one. */
const CANARY = 'Kanarya Ötüyor 4711';
const data = { amount: 1, secret: CANARY };
const place = { counter: 'a', sequence: 1 };
const sound = (event: Partial<CounterEvent> = {}) => counterEnvelope({ ...place, data, ...event });

/** Handlers that fail in all the ways in which an error can quote what it was about. */
const FAILURES: Readonly<
  Record<string, (tx: { query(text: string, values: unknown[]): Promise<unknown> }) => unknown>
> = {
  'an error that quotes the payload': () => {
    throw Object.assign(new Error(`cannot take ${CANARY}`), { code: CANARY, detail: CANARY, data });
  },
  'an error whose name quotes it, and whose message looks like a stack': () => {
    const error = new Error(`first\n    at ${CANARY} (/srv/${CANARY}.js:1:1)`);
    error.name = CANARY;
    throw error;
  },
  'an error with a cause that quotes it': () => {
    throw new Error('outer', { cause: new Error(CANARY, { cause: { code: CANARY } }) });
  },
  'something that is no error': () => {
    throw data; // oxlint-disable-line typescript/only-throw-error -- as plain JavaScript may
  },
  'a constraint, whose message quotes the key': async (tx) => {
    const insert = 'insert into effect (consumer, counter, sequence) values ($1, $2, 1)';
    await tx.query(insert, [CANARY, CANARY]);
    await tx.query(insert, [CANARY, CANARY]);
  },
  'a value that PostgreSQL cannot take': (tx) => tx.query('select $1::int', [CANARY]),
};

describe('the log of a consumer', () => {
  it.each(Object.entries(FAILURES))('says which event failed and why, and no value: %s', async (what, fail) => {
    const { handler, log } = counterConsumer({
      name: `fails-${Object.keys(FAILURES).indexOf(what)}`,
      pool: database.pool('sealed_ledger', 1),
      handlers: { 'counter.added': async (_event, { tx }) => void (await fail(tx)) },
    });
    await invoke(handler, [fifoRecord('a', sound({ id: '0c9f3f0e-5a43-4b0c-9a56-0d4d1cf6a0e1' }))]);
    expect(log.lines).toHaveLength(1);
    expect(log.lines[0]?.fields).toMatchObject({
      consumer: expect.stringMatching(/^fails-\d$/),
      class: expect.any(String),
      code: expect.stringMatching(/^[A-Z0-9_]+$/),
      eventId: '0c9f3f0e-5a43-4b0c-9a56-0d4d1cf6a0e1',
      eventType: 'counter.added',
      aggregateType: 'counter',
      aggregateId: 'a',
      sequence: '1',
    });
    expect(everythingIn(log.lines)).not.toContain(CANARY);
  });

  it('holds no value of messages that cannot be read, are unknown, out of order, repeated or out of time', async () => {
    const { handler, log, metrics } = counterConsumer({ name: 'quiet', pool: database.pool('sealed_ledger', 1) });
    const repeated = sound({ sequence: 1 });
    const bodies = [
      CANARY,
      JSON.stringify(CANARY),
      JSON.stringify({ [CANARY]: CANARY }),
      sound().replace('"specversion":"1.0"', `"specversion":"${CANARY}"`),
      sound().replace('"time":"', `"time":"${CANARY}`),
      sound({ data: { amount: CANARY } }),
      sound({ type: 'counter.unheard-of' }),
      sound({ source: '/elsewhere' }),
      sound({ version: 99 }),
      repeated,
      repeated,
      sound({ type: 'counter.renamed', sequence: 2 }),
      sound({ sequence: 9 }),
      sound({ sequence: 1 }),
      sound({ time: '0000-01-01T00:00:00Z', sequence: 3 }),
    ];
    for (const body of bodies) await invoke(handler, [fifoRecord('a', body)]);
    await invoke(handler, [fifoRecord('a', sound({ sequence: 3 }))], contextFor(0));
    // As many as there were messages, but for the one that was applied.
    expect(log.lines.length).toBe(bodies.length);
    expect(metrics.sum('Effects')).toBe(1);
    expect(everythingIn(log.lines)).not.toContain(CANARY);
  });
});

/** Also what a logger would find in a field that is an error: properties that JSON leaves out. */
function everythingIn(value: unknown): string {
  return inspect(value, { depth: Infinity, showHidden: true, maxStringLength: Infinity, maxArrayLength: Infinity });
}
