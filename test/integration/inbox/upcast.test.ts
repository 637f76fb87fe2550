import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { buildEnvelope, defineCatalogue, upcaster } from '../../../shared/events/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';
import { testDatabase } from '../../support/database.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';
import { fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();

const versions = {
  1: { type: 'object', required: ['gone'], properties: { gone: { type: 'string' } } },
  2: { type: 'object', required: ['total'], properties: { total: { type: 'integer' } } },
  3: {
    type: 'object',
    required: ['total', 'currency'],
    properties: { total: { type: 'integer' }, currency: { enum: ['EUR', 'TRY'] } },
  },
} as const;

const catalogueWith = (older: 'return' | 'ignore') =>
  compileCatalogue(
    defineCatalogue({
      source: '/tests',
      destinations: { all: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
      events: {
        'thing.made': {
          aggregate: 'thing',
          versions,
          upcast: { 2: upcaster(versions[2], versions[3])((data) => ({ total: data.total, currency: 'EUR' })) },
          older,
          whenParked: 'block',
          destinations: ['all'],
        },
      },
    }),
  );

const message = (sequence: bigint, schemaVersion: number, data: object) =>
  fifoRecord(
    'a',
    buildEnvelope({
      id: randomUUID(),
      source: '/tests',
      type: 'thing.made',
      schemaVersion,
      aggregateType: 'thing',
      aggregateId: 'a',
      sequence,
      occurredAt: new Date().toISOString(),
      data: JSON.stringify(data),
      metadata: null,
    }),
  );

it.each([
  ['return', 0],
  ['ignore', 3],
] as const)('a strict consumer whose type says %s for what is older has then applied up to %d', async (older, last) => {
  const seen: unknown[] = [];
  const log = recordingLog();
  const pool = database.pool('sealed_ledger');
  const handler = eventConsumer({
    name: `upcast-${older}`,
    mode: 'strict',
    startingPoint: 'beginning',
    destination: 'all',
    catalogue: catalogueWith(older),
    handlers: {
      'thing.made': async ({ data, schemaVersion }) => void seen.push([schemaVersion, data.total, data.currency]),
    },
    pool,
    log,
    metrics: recordingMetrics(),
  });
  const batch = [
    message(1n, 1, { gone: 'x' }),
    message(2n, 2, { total: 2 }),
    message(3n, 3, { total: 3, currency: 'TRY' }),
  ];
  const returned = await invoke(handler, batch);
  const { rows } = await pool.query(
    `select coalesce(max(sequence), 0)::int as position from inbox.stream_position where consumer = $1`,
    [`upcast-${older}`],
  );
  expect(rows).toEqual([{ position: last }]);
  expect(returned).toEqual([]);
  const held = await pool.query(`select reason from inbox.held_event where consumer = $1 order by sequence`, [
    `upcast-${older}`,
  ]);
  expect(held.rows.map(({ reason }) => reason)).toEqual(
    older === 'return' ? ['unknown-version', 'blocked', 'blocked'] : [],
  );
  expect(seen).toEqual(
    older === 'return'
      ? []
      : [
          [3, 2, 'EUR'],
          [3, 3, 'TRY'],
        ],
  );
  expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(older === 'return' ? 1 : 0);
});
