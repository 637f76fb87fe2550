import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { buildEnvelope, defineCatalogue, type Older, type Upcaster, upcaster } from '../../../shared/events/index.ts';
import { type ConsumedEvent, eventConsumer } from '../../../shared/inbox/index.ts';
import { newestEvent } from '../../../shared/inbox/newest-event.ts';
import { readEvent } from '../../../shared/inbox/read-event.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';
import { contextFor, invoke, standardRecord } from '../../support/sqs-batch.ts';

const versions = {
  1: { type: 'object', properties: { any: { type: 'string' } } },
  2: { type: 'object', required: ['total'], properties: { total: { type: 'integer' } } },
  3: {
    type: 'object',
    required: ['total', 'currency'],
    properties: { total: { type: 'integer' }, currency: { type: 'string' } },
  },
} as const;
const toNewest = upcaster(versions[2], versions[3])((data) => ({ ...data, currency: 'EUR' }));

function catalogueWith(step: Upcaster = toNewest, older?: Older) {
  return compileCatalogue(
    defineCatalogue({
      source: '/tests',
      destinations: {},
      events: {
        'thing.made': {
          aggregate: 'thing',
          versions,
          upcast: { 2: step },
          ...(older === undefined ? {} : { older }),
          whenParked: 'block',
          destinations: [],
        },
      },
    }),
  );
}
type TestCatalogue = ReturnType<typeof catalogueWith>;

function body(schemaVersion: number, data: object): string {
  return buildEnvelope({
    id: randomUUID(),
    source: '/tests',
    type: 'thing.made',
    schemaVersion,
    aggregateType: 'thing',
    aggregateId: '1',
    sequence: 1n,
    occurredAt: '2026-11-30T09:14:07Z',
    data: JSON.stringify(data),
    metadata: null,
  });
}

function newestOf(catalogue: TestCatalogue, version: number, data: object) {
  const read = readEvent(catalogue, body(version, data));
  if (!read.ok) throw new Error(read.failure.code);
  return newestEvent(catalogue, read.event);
}

describe('newestEvent', () => {
  it('gives handlers the newest version, whatever version was written', () => {
    for (const [version, data] of [
      [2, { total: 1 }],
      [3, { total: 1, currency: 'EUR' }],
    ] as const) {
      expect(newestOf(catalogueWith(), version, data)).toMatchObject({
        ok: true,
        event: { schemaVersion: 3, data: { total: 1, currency: 'EUR' }, aggregateId: '1', sequence: 1n },
      });
    }
  });

  it('types what handlers see by the newest schema', () => {
    type Made = ConsumedEvent<TestCatalogue, 'thing.made'>;
    expectTypeOf<Made['schemaVersion']>().toEqualTypeOf<3>();
    expectTypeOf<Made['data']['currency']>().toEqualTypeOf<string>();
  });

  it('tells a version without upcasters, an upcaster that throws and one with a wrong answer apart, and shows no value', () => {
    const thrower: Upcaster = {
      ...toNewest,
      apply: () => {
        throw new TypeError('canary');
      },
    };
    const liar: Upcaster = { ...toNewest, apply: () => ({ total: 'canary', currency: 'EUR' }) };
    const failures = [
      newestOf(catalogueWith(), 1, { any: 'canary' }),
      newestOf(catalogueWith(thrower), 2, { total: 1 }),
      newestOf(catalogueWith(liar), 2, { total: 1 }),
    ].map((newest) => (newest.ok ? null : newest.failure));
    expect(failures).toMatchObject([
      { class: 'unknown-version', code: 'EVENT_VERSION_TOO_OLD' },
      {
        class: 'malformed',
        code: 'UPCASTER_FAILED',
        errorName: 'TypeError',
        frames: expect.arrayContaining([expect.stringContaining('apply')]),
      },
      { class: 'malformed', code: 'UPCASTER_RESULT_INVALID' },
    ]);
    expect(JSON.stringify(failures)).not.toContain('canary');
  });

  it('validates the version that was written before it upcasts', () => {
    expect(() => newestOf(catalogueWith(), 2, { total: 'x' })).toThrow('EVENT_DATA_INVALID');
  });
});

describe('a consumer and an event older than the oldest upcaster', () => {
  /** A database that knows the consumer, and answers that what it is given is held. */
  const written: unknown[] = [];
  const pool = {
    options: { max: 1 },
    connect: async () => ({
      query: async (text: string, values?: readonly unknown[]) => {
        if (!text.includes('inbox.hold('))
          return { rows: text.includes('from inbox.consumer') ? [{ mode: 'any' }] : [] };
        written.push(...(JSON.parse(values?.[2] as string) as unknown[]));
        return { rows: [{ held: true }] };
      },
      release: () => {},
      on: () => {},
      off: () => {},
    }),
  } as unknown as pg.Pool;
  const old = standardRecord(body(1, { any: 'canary' }));

  function consume(catalogue: TestCatalogue, handled: boolean) {
    const log = recordingLog();
    const metrics = recordingMetrics();
    const handlers = handled ? { 'thing.made': () => Promise.reject(new Error('reached')) } : {};
    const handler = eventConsumer({ name: 'reader', mode: 'any', catalogue, handlers, pool, log, metrics });
    return { log, metrics, returned: invoke(handler, [old], contextFor(30_000)) };
  }

  it('holds it by default, as it came', async () => {
    const { log, metrics, returned } = consume(catalogueWith(), true);
    expect(await returned).toEqual([]);
    expect(metrics.sum('Held', { Reason: 'unknown-version' })).toBe(1);
    expect(written).toMatchObject([{ reason: 'unknown-version', body: old.body, type: 'thing.made', sequence: '1' }]);
    const reason = 'no upcaster leads from version 1 of thing.made to 3';
    expect(log.lines).toMatchObject([{ level: 'error', fields: { code: 'EVENT_VERSION_TOO_OLD', reason } }]);
  });

  it('acknowledges it without effect where the type says so, and counts and logs it', async () => {
    const { log, metrics, returned } = consume(catalogueWith(toNewest, 'ignore'), true);
    expect(await returned).toEqual([]);
    expect(metrics.sum('Ignored')).toBe(1);
    expect(log.lines).toMatchObject([{ level: 'warn', fields: { eventType: 'thing.made', schemaVersion: 1 } }]);
  });

  it('does not care where it has no handler for the type', async () => {
    const { log, metrics, returned } = consume(catalogueWith(), false);
    expect(await returned).toEqual([]);
    expect(metrics.sum('Ignored')).toBe(1);
    expect(log.lines).toMatchObject([{ level: 'info' }]);
  });
});
