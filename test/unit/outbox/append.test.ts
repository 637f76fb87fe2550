import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { defineCatalogue } from '../../../shared/events/index.ts';
import { createOutbox, EventRefusedError, type OutboxEvent, type Transaction } from '../../../shared/outbox/index.ts';
import { traced } from '../../../shared/outbox/append.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';

const catalogue = compileCatalogue(
  defineCatalogue({
    source: '/tests',
    destinations: { queue: { kind: 'sqs-fifo', groupId: 'aggregate-id', maxBytes: 2048 } },
    events: {
      'thing.made': {
        aggregate: 'thing',
        versions: {
          1: { type: 'object', additionalProperties: false, properties: { old: { type: 'string' } } },
          2: {
            type: 'object',
            additionalProperties: false,
            required: ['total'],
            properties: {
              total: { type: 'integer', minimum: 0 },
              note: { type: 'string' },
              tags: { type: 'array', items: { type: 'string', maxLength: 3 } },
            },
          },
        },
        whenParked: 'block',
        destinations: ['queue'],
      },
      'thing.kept': {
        aggregate: 'thing',
        versions: { 1: { type: 'object', properties: { note: { type: 'string' } } } },
        whenParked: 'skip',
        destinations: [],
      },
    },
  }),
);
const outbox = createOutbox({ catalogue });
type Event = OutboxEvent<typeof catalogue>;

const aggregate = { type: 'thing', id: '1' } as const;
const good = { type: 'thing.made', aggregate, data: { total: 1 } } as const satisfies Event;
const CANARY = 'canary-51c9';

/** A transaction that answers as the database would, rows in reverse order, and remembers what it was asked. */
function recorder(status?: string) {
  const calls: { text: string; events: Record<string, unknown>[] }[] = [];
  const tx: Transaction & { getTransactionStatus?: () => string } = {
    query(text, values) {
      const events = JSON.parse(String(values?.[0])) as Record<string, unknown>[];
      calls.push({ text, events });
      const rows = events.map((event, index) => ({ id: event['id'], sequence: String(2n ** 60n + BigInt(index)) }));
      return Promise.resolve({ rows: rows.toReversed(), rowCount: rows.length });
    },
    ...(status === undefined ? {} : { getTransactionStatus: () => status }),
  };
  return { tx, calls };
}

async function refusal(event: unknown): Promise<{ code: string; field: string; message: string }> {
  const { tx, calls } = recorder();
  const error: unknown = await outbox.append(tx, [good, event as Event]).then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!(error instanceof EventRefusedError)) throw new Error('was not refused', { cause: error });
  expect(calls).toEqual([]);
  return { code: error.code, field: error.field, message: error.message };
}

function failing(code: string, message: string): Transaction {
  return { query: () => Promise.reject(Object.assign(new Error(message), { code })) };
}

describe('append', () => {
  it('makes one call, with the newest version and a UUID v7, and answers in the order of its input', async () => {
    const { tx, calls } = recorder('T');
    const metadata = { causationid: 'x' };
    const appended = await outbox.append(tx, [good, { ...good, metadata }]);
    expect(calls).toHaveLength(1);
    expect(calls[0]?.text).toBe('select id::text, sequence::text from outbox.append($1::jsonb)');
    const row = {
      type: 'thing.made',
      schema_version: 2,
      aggregate_type: 'thing',
      aggregate_id: '1',
      data: { total: 1 },
    };
    expect(calls[0]?.events).toEqual([
      { ...row, id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/) as string },
      { ...row, id: expect.any(String) as string, metadata },
    ]);
    expect(appended).toEqual(
      calls[0]?.events.map((event, index) => ({ id: event['id'], sequence: 2n ** 60n + BigInt(index) })),
    );
  });

  it('does nothing for no events', async () => {
    const { tx, calls } = recorder();
    expect(await outbox.append(tx, [])).toEqual([]);
    expect(calls).toEqual([]);
  });

  it.each<[string, unknown, string, string]>([
    ['no object', 7, 'EVENT_MALFORMED', 'events[1]'],
    ['a misspelt key', { ...good, metaData: {} }, 'EVENT_MALFORMED', 'events[1]'],
    ['a type that is no string', { ...good, type: 7 }, 'EVENT_MALFORMED', 'events[1].type'],
    ['an unknown type', { ...good, type: 'thing.lost' }, 'EVENT_TYPE_UNKNOWN', 'events[1].type'],
    ["a name of Object's prototype", { ...good, type: 'constructor' }, 'EVENT_TYPE_UNKNOWN', 'events[1].type'],
    ['no aggregate', { ...good, aggregate: undefined }, 'EVENT_MALFORMED', 'events[1].aggregate'],
    [
      'another aggregate type',
      { ...good, aggregate: { type: 'x', id: '1' } },
      'EVENT_MALFORMED',
      'events[1].aggregate.type',
    ],
    [
      'an aggregate id that is a number',
      { ...good, aggregate: { type: 'thing', id: 1 } },
      'EVENT_MALFORMED',
      'events[1].aggregate.id',
    ],
    [
      'an empty aggregate id',
      { ...good, aggregate: { type: 'thing', id: '' } },
      'EVENT_MALFORMED',
      'events[1].aggregate.id',
    ],
    [
      'an aggregate id of 201 characters',
      { ...good, aggregate: { type: 'thing', id: '👩'.repeat(201) } },
      'EVENT_MALFORMED',
      'events[1].aggregate.id',
    ],
    [
      'an aggregate id of 300 characters',
      { ...good, aggregate: { type: 'thing', id: 'x'.repeat(300) } },
      'EVENT_MALFORMED',
      'events[1].aggregate.id',
    ],
    [
      'U+0000 in the aggregate id',
      { ...good, aggregate: { type: 'thing', id: 'a\u0000' } },
      'EVENT_MALFORMED',
      'events[1].aggregate.id',
    ],
    [
      'half a pair in the aggregate id',
      { ...good, aggregate: { type: 'thing', id: 'a\uD83D' } },
      'EVENT_MALFORMED',
      'events[1].aggregate.id',
    ],
    ['unknown metadata', { ...good, metadata: { user: CANARY } }, 'EVENT_MALFORMED', 'events[1].metadata'],
    [
      'a trace that is none',
      { ...good, metadata: { traceparent: CANARY } },
      'EVENT_MALFORMED',
      'events[1].metadata.traceparent',
    ],
    [
      'metadata that is no string',
      { ...good, metadata: { correlationid: 7 } },
      'EVENT_MALFORMED',
      'events[1].metadata.correlationid',
    ],
    [
      'metadata over 1,024 bytes',
      { ...good, metadata: { correlationid: 'ü'.repeat(510) } },
      'EVENT_MALFORMED',
      'events[1].metadata',
    ],
    ['no data', { type: 'thing.made', aggregate }, 'EVENT_DATA_INVALID', 'events[1].data'],
    ['a missing field', { ...good, data: { note: CANARY } }, 'EVENT_DATA_INVALID', 'events[1].data.total'],
    ['a field of the wrong type', { ...good, data: { total: CANARY } }, 'EVENT_DATA_INVALID', 'events[1].data.total'],
    ['data of an older version', { ...good, data: { old: CANARY } }, 'EVENT_DATA_INVALID', 'events[1].data.total'],
    ['an unknown field', { ...good, data: { total: 1, extra: CANARY } }, 'EVENT_DATA_INVALID', 'events[1].data.extra'],
    [
      'a wrong item',
      { ...good, data: { total: 1, tags: ['ok', CANARY] } },
      'EVENT_DATA_INVALID',
      'events[1].data.tags[1]',
    ],
    [
      'U+0000 in a string',
      { ...good, data: { total: 1, note: `${CANARY}\u0000` } },
      'EVENT_DATA_INVALID',
      'events[1].data.note',
    ],
    ['NaN', { ...good, data: { total: Number.NaN } }, 'EVENT_DATA_INVALID', 'events[1].data.total'],
    ['a number beyond 2^53', { ...good, data: { total: 2 ** 53 } }, 'EVENT_DATA_INVALID', 'events[1].data.total'],
    [
      "more than the queue's limit",
      { ...good, data: { total: 1, note: CANARY.repeat(200) } },
      'EVENT_TOO_LARGE',
      'events[1].data',
    ],
  ])('refuses %s before anything is written, and does not repeat the value', async (_, event, code, field) => {
    const refused = await refusal(event);
    expect(refused).toEqual({ code, field, message: expect.stringContaining(field) as string });
    expect(refused.message).toContain('Nothing was appended.');
    expect(refused.message).not.toContain(CANARY);
  });

  it('accepts what just fits', async () => {
    const { tx } = recorder();
    const id = '👩'.repeat(200);
    // A JSON text of 1,548 bytes and 500 of envelope fill the queue's 2,048.
    const note = 'x'.repeat(1548 - '{"total":1,"note":""}'.length);
    await outbox.append(tx, [{ ...good, aggregate: { type: 'thing', id }, data: { total: 1, note } }]);
    expect((await refusal({ ...good, data: { total: 1, note: `${note}x` } })).code).toBe('EVENT_TOO_LARGE');
  });

  it('lets an event that goes nowhere be of any size', async () => {
    const { tx } = recorder();
    await outbox.append(tx, [{ type: 'thing.kept', aggregate, data: { note: 'x'.repeat(10_000) } }]);
  });

  it('refuses events that are no array', async () => {
    await expect(outbox.append(recorder().tx, good as never)).rejects.toMatchObject({ code: 'EVENT_MALFORMED' });
  });
});

describe('append on something that is no transaction', () => {
  const code = 'NOT_A_TRANSACTION';

  it('refuses a pool, to the compiler and at run time', async () => {
    const pool = {
      query: () => {},
      connect: () => {},
      totalCount: 0,
      idleCount: 0,
      waitingCount: 0,
    } as unknown as pg.Pool;
    // @ts-expect-error -- a pool would commit the event alone
    await expect(outbox.append(pool, [good])).rejects.toMatchObject({ code });
  });

  it('takes the clients of pg, to the compiler', () => {
    const take = (client: pg.Client, poolClient: pg.PoolClient) => [
      outbox.append(client, []),
      outbox.append(poolClient, []),
    ];
    expect(take).toBeTypeOf('function');
  });

  it.each(['I', 'E'])('refuses a client whose transaction status is %s', async (status) => {
    const { tx, calls } = recorder(status);
    await expect(outbox.append(tx, [good])).rejects.toMatchObject({ code });
    expect(calls).toEqual([]);
  });

  it.each([null, undefined, 7, {}, { query: 'select' }])('refuses %j', async (tx) => {
    await expect(outbox.append(tx as never, [good])).rejects.toMatchObject({ code });
  });
});

describe('types of append', () => {
  it('follow from the catalogue', () => {
    const use = (tx: Transaction) => [
      // @ts-expect-error -- unknown type
      outbox.append(tx, [{ type: 'thing.lost', aggregate, data: { total: 1 } }]),
      // @ts-expect-error -- total is a number
      outbox.append(tx, [{ type: 'thing.made', aggregate, data: { total: '1' } }]),
      // @ts-expect-error -- total is missing
      outbox.append(tx, [{ type: 'thing.made', aggregate, data: {} }]),
      // @ts-expect-error -- data of version 1
      outbox.append(tx, [{ type: 'thing.made', aggregate, data: { old: 'x' } }]),
      // @ts-expect-error -- another aggregate's type
      outbox.append(tx, [{ type: 'thing.made', aggregate: { type: 'payment', id: '1' }, data: { total: 1 } }]),
      outbox.append(tx, [{ type: 'thing.made', aggregate, data: { total: 1, tags: ['a'] } }]),
    ];
    expect(use).toBeTypeOf('function');
  });
});

describe('errors of the database', () => {
  it.each([
    [
      'OB001',
      'events[3].aggregate_id must have 1 to 200 characters. Nothing was appended.',
      'EVENT_MALFORMED',
      'events[3].aggregate_id',
    ],
    [
      'OB002',
      'events[0].type or its schema_version is not in the installed catalogue.',
      'EVENT_TYPE_UNKNOWN',
      'events[0].type',
    ],
    ['OB003', 'events[1].data is too large for destination "queue".', 'EVENT_TOO_LARGE', 'events[1].data'],
    ['OB004', 'synchronous_commit is off.', 'COMMIT_NOT_DURABLE', undefined],
  ])('%s becomes an error with a code, a field and its cause', async (sqlState, message, code, field) => {
    await expect(outbox.append(failing(sqlState, message), [good])).rejects.toMatchObject({
      code,
      ...(field === undefined ? {} : { field }),
      message: expect.stringContaining(message) as string,
      cause: { code: sqlState },
    });
  });

  it.each(['40P01', '40001', '57P01'])('%s passes untouched', async (sqlState) => {
    const error = await outbox
      .append(failing(sqlState, 'as the driver says it'), [good])
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: sqlState, message: 'as the driver says it' });
    expect(error).not.toBeInstanceOf(EventRefusedError);
  });
});

describe('the trace that events are appended in', () => {
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const row = (metadata?: object) => ({
    id: '01890a5d-ac96-774b-bcce-b302099a8057',
    type: 'thing.made',
    schema_version: 2,
    aggregate_type: 'thing',
    aggregate_id: 'a',
    data: { total: 1 },
    ...(metadata !== undefined && { metadata }),
  });

  it('goes along with an event that names none, beside its other metadata', () => {
    expect(traced(row(), traceparent)).toEqual(row({ traceparent }));
    expect(traced(row({ correlationid: 'c' }), traceparent)).toEqual(row({ correlationid: 'c', traceparent }));
  });

  it('leaves an event as it is that names one itself, or has no room for it', () => {
    const own = row({ traceparent: traceparent.replace('-01', '-00') });
    expect(traced(own, traceparent)).toBe(own);
    const full = row({ correlationid: 'c'.repeat(980) });
    expect(traced(full, traceparent)).toBe(full);
    expect(traced(row(), undefined)).toEqual(row());
  });
});
