import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { transaction } from '../../../shared/database/index.ts';
import { buildEnvelope, catalogueRows, defineCatalogue, parseEnvelope } from '../../../shared/events/index.ts';
import { eventConsumer, type Handlers } from '../../../shared/inbox/index.ts';
import { createOutbox } from '../../../shared/outbox/index.ts';
import { noMetrics, silentLog } from '../../../shared/telemetry/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';
import { testDatabase } from '../../support/database.ts';
import { fifoRecord, invoke } from '../../support/sqs-batch.ts';

const step = (aggregate: string) =>
  ({ aggregate, versions: { 1: { type: 'object' } }, whenParked: 'block', destinations: ['queue'] }) as const;
const catalogue = compileCatalogue(
  defineCatalogue({
    source: '/tests',
    destinations: { queue: { kind: 'sqs' } },
    events: { 'order.placed': step('order'), 'order.shipped': step('order'), 'parcel.sent': step('parcel') },
  }),
);
const database = await testDatabase();
const owner = await database.client('sealed_migrator');
await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(catalogueRows(catalogue))]);
const pool = database.pool('sealed_reactor');
const outbox = createOutbox({ catalogue });
const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

/** Each hop appends the next event in the transaction of its effect; `failures` makes that fail afterwards. */
function chain(failures = { left: 0 }) {
  const handlers: Handlers<typeof catalogue> = {
    'order.placed': async (event, { tx }) => {
      await outbox.append(
        tx,
        [
          { type: 'order.shipped', aggregate: { type: 'order', id: event.aggregateId }, data: {} },
          { type: 'parcel.sent', aggregate: { type: 'parcel', id: event.aggregateId }, data: {} },
        ],
        { causedBy: event },
      );
      if (failures.left-- > 0) throw new Error('after the append');
    },
    'order.shipped': async (event, { tx }) => {
      await outbox.append(
        tx,
        [{ type: 'parcel.sent', aggregate: { type: 'parcel', id: event.aggregateId }, data: { hop: 2 } }],
        { causedBy: event },
      );
    },
  };
  const consume = eventConsumer({
    name: `chain-${randomUUID()}`,
    mode: 'any',
    catalogue,
    pool,
    log: silentLog,
    metrics: noMetrics,
    handlers,
  });
  return (body: string) => invoke(consume, [fifoRecord('order', body)]);
}

async function place(id: string, metadata?: object): Promise<string> {
  await transaction(pool, (tx) =>
    outbox.append(tx, [
      {
        type: 'order.placed',
        aggregate: { type: 'order', id },
        data: {},
        ...(metadata === undefined ? {} : { metadata }),
      },
    ]),
  );
  const [placed] = await envelopes(id, 'order.placed');
  return placed ?? '';
}

/** What the relay would send of an aggregate's events of a type. */
async function envelopes(id: string, type: string): Promise<string[]> {
  const { rows } = await database.pool('sealed_relay').query(
    `select e.id, e.type, e.schema_version as "schemaVersion", e.aggregate_type as "aggregateType",
            e.aggregate_id as "aggregateId", e.sequence, e.data::text as data, e.metadata, i.source,
            to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "occurredAt"
       from outbox.event e, outbox.installation i
      where e.aggregate_id = $1 and e.type = $2
      order by e.sequence`,
    [id, type],
  );
  return rows.map(buildEnvelope);
}

function read(body: string | undefined) {
  const parsed = parseEnvelope(body ?? '');
  if (!parsed.ok) throw new Error(parsed.reason);
  const { id, causationid, correlationid, traceparent } = parsed.event;
  return { id, causationid, correlationid, traceparent };
}

describe('an event appended by a handler', () => {
  it('names what led to it, and what all of the chain belongs to, over two hops', async () => {
    const consume = chain();
    const placed = await place('two-hops', { traceparent: TRACEPARENT });
    await consume(placed);
    const [shipped = ''] = await envelopes('two-hops', 'order.shipped');
    await consume(shipped);
    const [first, second] = (await envelopes('two-hops', 'parcel.sent')).map(read);
    const root = read(placed);
    expect(root.correlationid).toBeUndefined();
    const along = { correlationid: root.id, traceparent: TRACEPARENT };
    expect(read(shipped)).toEqual({ ...along, id: expect.any(String), causationid: root.id });
    expect(first).toEqual({ ...along, id: expect.any(String), causationid: root.id });
    expect(second).toEqual({ ...along, id: expect.any(String), causationid: read(shipped).id });
  });

  it('goes on with a correlation id that was there already', async () => {
    const placed = await place('correlated', { correlationid: 'order-7', causationid: 'x' });
    await chain()(placed);
    const [shipped] = await envelopes('correlated', 'order.shipped');
    expect(read(shipped)).toMatchObject({ correlationid: 'order-7', causationid: read(placed).id });
  });

  it('is there once, however often the message comes', async () => {
    const consume = chain();
    const placed = await place('once');
    await Promise.all([consume(placed), consume(placed)]);
    await consume(placed);
    expect(await envelopes('once', 'order.shipped')).toHaveLength(1);
  });

  it('is not there when the handler fails afterwards; the retry appends it', async () => {
    const consume = chain({ left: 1 });
    const placed = await place('failing');
    expect(await consume(placed)).toHaveLength(1);
    expect(await envelopes('failing', 'order.shipped')).toEqual([]);
    expect(await consume(placed)).toEqual([]);
    expect(await envelopes('failing', 'order.shipped')).toHaveLength(1);
  });
});
