import { describe, expect, it } from 'vitest';
import { transaction } from '../../../shared/database/index.ts';
import { buildEnvelope, catalogueRows, defineCatalogue, parseEnvelope } from '../../../shared/events/index.ts';
import { createOutbox } from '../../../shared/outbox/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';
import { testDatabase } from '../../support/database.ts';

const catalogue = compileCatalogue(
  defineCatalogue({
    source: '/tests',
    destinations: { queue: { kind: 'sqs-fifo', groupId: 'aggregate-id', maxBytes: 4096 } },
    events: {
      'thing.made': {
        aggregate: 'thing',
        versions: { 1: { type: 'object', properties: { note: {} } } },
        whenParked: 'block',
        destinations: ['queue'],
      },
      'thing.unknown-to-the-database': {
        aggregate: 'thing',
        versions: { 1: { type: 'object' } },
        whenParked: 'block',
        destinations: [],
      },
    },
  }),
);
const database = await testDatabase();
const owner = await database.client('sealed_migrator');
const { event_types, ...rest } = catalogueRows(catalogue);
await owner.query('select outbox.install_catalogue($1)', [
  JSON.stringify({ ...rest, event_types: event_types.filter(({ type }) => type === 'thing.made') }),
]);
const pool = database.pool('sealed_writer');
const outbox = createOutbox({ catalogue });

const thing = (id: string, note: unknown = 'x') =>
  ({ type: 'thing.made', aggregate: { type: 'thing', id }, data: { note } }) as const;

/** The envelope that the relay would send of a stored event. */
async function envelopeOf(id: string): Promise<string> {
  const relay = database.pool('sealed_relay');
  const { rows } = await relay.query(
    `select e.id, e.type, e.schema_version as "schemaVersion", e.aggregate_type as "aggregateType",
            e.aggregate_id as "aggregateId", e.sequence, e.data::text as data, e.metadata, i.source,
            to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "occurredAt"
       from outbox.event e, outbox.installation i
      where e.id = $1`,
    [id],
  );
  return buildEnvelope(rows[0]);
}

async function count(): Promise<number> {
  const { rows } = await owner.query('select count(*)::integer as events from outbox.event');
  return rows[0].events;
}

describe('append through the library', () => {
  it('answers ids and sequences in the order of its input, over several aggregates', async () => {
    const ids = ['b', 'a', 'b', 'c', 'a'];
    const appended = await transaction(pool, (tx) =>
      outbox.append(
        tx,
        ids.map((id) => thing(id)),
      ),
    );
    expect(appended.map(({ sequence }) => sequence)).toEqual([1n, 1n, 2n, 1n, 2n]);
    const { rows } = await owner.query('select id, aggregate_id, sequence from outbox.event where id = any ($1)', [
      appended.map(({ id }) => id),
    ]);
    const stored = new Map(rows.map((row) => [row.id, [row.aggregate_id, BigInt(row.sequence)]]));
    expect(appended.map(({ id }) => stored.get(id))).toEqual(appended.map(({ sequence }, n) => [ids[n], sequence]));
  });

  it('is undone with its transaction, and leaves no gap', async () => {
    const before = await count();
    await expect(
      transaction(pool, async (tx) => {
        await outbox.append(tx, [thing('undone')]);
        throw new Error('the business row was refused');
      }),
    ).rejects.toThrow('the business row');
    expect(await count()).toBe(before);
    const [first] = await transaction(pool, (tx) => outbox.append(tx, [thing('undone')]));
    expect(first?.sequence).toBe(1n);
  });

  it('is undone by a rollback to a savepoint', async () => {
    const appended = await transaction(pool, async (tx) => {
      await tx.query('savepoint before');
      await outbox.append(tx, [thing('saved', 'dropped')]);
      await tx.query('rollback to savepoint before');
      return outbox.append(tx, [thing('saved', 'kept')]);
    });
    const { rows } = await owner.query(`select sequence, data from outbox.event where aggregate_id = 'saved'`);
    expect(rows).toEqual([{ sequence: '1', data: { note: 'kept' } }]);
    expect(appended[0]?.sequence).toBe(1n);
  });

  it('refuses a connection before begin, and after an error, without touching it', async () => {
    const client = await database.client('sealed_writer');
    await expect(outbox.append(client, [thing('1')])).rejects.toMatchObject({ code: 'NOT_A_TRANSACTION' });
    await client.query('begin');
    await expect(client.query('select 1/0')).rejects.toMatchObject({ code: '22012' });
    // pg rejects at the error; that the transaction has failed it hears a moment later.
    await expect.poll(() => client.getTransactionStatus()).toBe('E');
    await expect(outbox.append(client, [thing('1')])).rejects.toMatchObject({ code: 'NOT_A_TRANSACTION' });
    await client.query('rollback');
    await client.query('begin');
    expect(await outbox.append(client, [thing('after')])).toHaveLength(1);
    await client.query('rollback');
  });

  it('leaves the transaction usable when it refuses an event itself', async () => {
    const appended = await transaction(pool, async (tx) => {
      await expect(outbox.append(tx, [thing('x'.repeat(300))])).rejects.toMatchObject({ code: 'EVENT_MALFORMED' });
      await expect(outbox.append(tx, [thing('1', 'a\u0000b')])).rejects.toMatchObject({
        code: 'EVENT_DATA_INVALID',
        field: 'events[0].data.note',
      });
      return outbox.append(tx, [thing('usable')]);
    });
    expect(appended).toHaveLength(1);
  });

  it('case 58: refuses when synchronous_commit is off', async () => {
    const before = await count();
    const appending = transaction(pool, async (tx) => {
      await tx.query('set local synchronous_commit = off');
      await outbox.append(tx, [thing('1')]);
    });
    await expect(appending).rejects.toMatchObject({ code: 'COMMIT_NOT_DURABLE' });
    expect(await count()).toBe(before);
  });

  it('says when the database does not know the type yet', async () => {
    const event = {
      type: 'thing.unknown-to-the-database',
      aggregate: { type: 'thing', id: '1' },
      data: {},
    } as const;
    await expect(transaction(pool, (tx) => outbox.append(tx, [thing('1'), event]))).rejects.toMatchObject({
      code: 'EVENT_TYPE_UNKNOWN',
      field: 'events[1].type',
    });
  });

  it('refuses what is too large, whichever side counts it', async () => {
    const short = thing('1', 'x'.repeat(3700));
    // Escapes and long ids make an envelope larger than the library's lower bound: SQL counts exactly.
    const long = thing('"'.repeat(200), 'x'.repeat(3000));
    for (const event of [short, long]) {
      await expect(transaction(pool, (tx) => outbox.append(tx, [event]))).rejects.toMatchObject({
        code: 'EVENT_TOO_LARGE',
        field: 'events[0].data',
      });
    }
  });

  it('case 2: two writers on one aggregate: the first that appends is the first in order, however late it commits', async () => {
    const slow = await database.client('sealed_writer');
    await slow.query('begin');
    const [first] = await outbox.append(slow, [thing('shared', 'first')]);
    const second = transaction(pool, (tx) => outbox.append(tx, [thing('shared', 'second')]));
    const others = await transaction(pool, (tx) => outbox.append(tx, [thing('other')]));
    expect(others[0]?.sequence).toBe(1n);
    await slow.query('commit');
    expect([first?.sequence, (await second)[0]?.sequence]).toEqual([1n, 2n]);
  });

  it.each<[string, unknown]>([
    ['Turkish letters', 'İstanbul’da ığdır çiçeği'],
    ['emoji', '👩‍👩‍👧 🇹🇷'],
    ['line separators', 'a\u2028b\u2029c'],
    ['noncharacters', '\uFFFE\uFFFF\u{1FFFE}'],
    ['control characters', '\u0001\t\n\r\u001f\u007f'],
    ['quotes and escapes', '\\"\\u0000\\'],
    ['the largest exact number', Number.MAX_SAFE_INTEGER],
    ['fractions', [0.1, 1e-7, -1.5]],
    ['a key named __proto__', JSON.parse('{"__proto__":{"a":1}}')],
    ['empty things', ['', {}, [], null, false, 0]],
  ])('brings %s through the database and the envelope', async (_, note) => {
    const id = `İ "${'👩'.repeat(10)}" \uFFFE`;
    const [appended] = await transaction(pool, (tx) => outbox.append(tx, [thing(id, note)]));
    const body = await envelopeOf(appended?.id ?? '');
    const { rows } = await owner.query('select bytes from outbox.delivery where event_id = $1', [appended?.id]);
    expect(rows[0].bytes, 'the size that was checked is no less than the size that is sent').toBeGreaterThanOrEqual(
      Buffer.byteLength(body),
    );
    expect(body).toMatch(/^[\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]*$/u);
    expect(parseEnvelope(body)).toMatchObject({
      ok: true,
      event: { ...appended, source: '/tests', type: 'thing.made', aggregateId: id, schemaVersion: 1, data: { note } },
    });
  });

  it('keeps the digits of what plain SQL wrote', async () => {
    const { rows } = await pool.query('select id from outbox.append($1)', [
      '[{"type":"thing.made","aggregate_type":"thing","aggregate_id":"digits","data":{"note":12345678901234567890.10}}]',
    ]);
    expect(await envelopeOf(rows[0].id)).toContain('12345678901234567890.10');
  });

  it('carries metadata into the envelope', async () => {
    const metadata = {
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      correlationid: 'order 9',
      causationid: 'İ'.repeat(400),
    };
    const [appended] = await transaction(pool, (tx) => outbox.append(tx, [{ ...thing('meta'), metadata }]));
    expect(parseEnvelope(await envelopeOf(appended?.id ?? ''))).toMatchObject({ ok: true, event: metadata });
  });
});
