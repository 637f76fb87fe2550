import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildEnvelope } from '../../shared/events/index.ts';
import { transaction } from '../../shared/database/index.ts';
import { testDatabase } from '../support/database.ts';
import { append, installCatalogue, QUEUE, thing } from '../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writers = database.pool('sealed_writer', 8);

beforeAll(async () => {
  await installCatalogue(
    owner,
    [
      { type: 'thing.happened' },
      { type: 'other.happened', aggregate_type: 'other' },
      { type: 'thing.unrouted', destinations: [] },
    ],
    [QUEUE, { name: 'second', kind: 'sqs-fifo' }, { name: 'small', kind: 'sqs', max_bytes: 200_000 }],
  );
});

async function sequencesOf(aggregateId: string): Promise<number[]> {
  const { rows } = await owner.query('select sequence from outbox.event where aggregate_id = $1 order by sequence', [
    aggregateId,
  ]);
  return rows.map((row) => Number(row.sequence));
}

describe('sequences', () => {
  it('like case 3: are counted per aggregate, and returned in the order of the events', async () => {
    expect(await append(writers, thing('s1'), thing('s2'), thing('s1'), thing('s1'), thing('s2'))).toEqual([
      1n,
      1n,
      2n,
      3n,
      2n,
    ]);
  });

  it('case 3: events of one transaction, which share their time, are told apart by sequence', async () => {
    await transaction(writers, async (tx) => {
      await append(tx, thing('same-time', { n: 1 }), thing('same-time', { n: 2 }));
      await append(tx, thing('same-time', { n: 3 }));
    });
    const { rows } = await owner.query(
      `select count(distinct occurred_at)::integer as times, array_agg(data ->> 'n' order by sequence) as order
         from outbox.event where aggregate_id = 'same-time'`,
    );
    expect(rows).toEqual([{ times: 1, order: ['1', '2', '3'] }]);
  });

  it('case 2: two transactions on one aggregate: the second waits, and its sequence is the higher one', async () => {
    const first = await writers.connect();
    const second = await writers.connect();
    try {
      await first.query('begin');
      await second.query('begin');
      // The second transaction has the lower transaction id, and still comes after the first.
      const { rows } = await second.query('select pg_current_xact_id(), pg_backend_pid() as pid');
      const pid = rows[0].pid;
      const [a] = await append(first, thing('contended'));
      const waiting = append(second, thing('contended'));
      await expect
        .poll(async () => (await owner.query('select from pg_locks where not granted and pid = $1', [pid])).rowCount)
        .toBe(1);
      await first.query('commit');
      const [b] = await waiting;
      await second.query('commit');
      expect([a, b]).toEqual([1n, 2n]);
    } finally {
      first.release(true);
      second.release(true);
    }
  });

  it('case 7: two transactions write the first event of a new aggregate at once: versions 1 and 2', async () => {
    const results = await Promise.all(Array.from({ length: 8 }, () => append(writers, thing('brand-new'))));
    expect(results.flat().toSorted((a, b) => Number(a - b))).toEqual([1n, 2n, 3n, 4n, 5n, 6n, 7n, 8n]);
  });

  it('has no gap after a rollback, nor after a rollback to a savepoint', async () => {
    await append(writers, thing('gapless'));
    await transaction(writers, async (tx) => {
      await append(tx, thing('gapless'));
      await tx.query('savepoint s');
      await append(tx, thing('gapless', { undone: true }));
      await tx.query('rollback to savepoint s');
      await append(tx, thing('gapless'));
    });
    await transaction(writers, async (tx) => {
      await append(tx, thing('gapless'));
      throw new Error('undo');
    }).catch(() => {});
    await append(writers, thing('gapless'));
    expect(await sequencesOf('gapless')).toEqual([1, 2, 3, 4]);
    const { rows } = await owner.query(
      `select from outbox.event where aggregate_id = 'gapless' and data::jsonb ? 'undone'`,
    );
    expect(rows).toEqual([]);
  });

  it('survives 1,000 events of 500 aggregates, two such in parallel in opposite order: no deadlock, no gaps', async () => {
    const events = Array.from({ length: 1000 }, (_, i) => thing(`bulk-${i % 500}`, { i }));
    await Promise.all([append(writers, ...events), append(writers, ...events.toReversed())]);
    const { rows } = await owner.query(
      `select count(*)::integer as aggregates from (
         select from outbox.event where aggregate_id like 'bulk-%'
          group by aggregate_id having array_agg(sequence order by sequence) = array[1, 2, 3, 4]::bigint[]) whole`,
    );
    expect(rows).toEqual([{ aggregates: 500 }]);
  });

  it('starts above 2^40 × epoch after a restore, for known aggregates and new ones', async () => {
    await append(writers, thing('old-stream'));
    await owner.query('update outbox.installation set epoch = 3');
    try {
      const base = 3n << 40n;
      expect(await append(writers, thing('old-stream'), thing('new-stream'), thing('old-stream'))).toEqual([
        base + 1n,
        base + 1n,
        base + 2n,
      ]);
      expect(await append(writers, thing('old-stream'))).toEqual([base + 3n]);
    } finally {
      await owner.query('update outbox.installation set epoch = 0');
    }
  });
});

describe('deliveries', () => {
  it('case 52: one append, several destinations, many events: per destination, positions rise with the sequence', async () => {
    await append(writers, ...Array.from({ length: 300 }, (_, i) => thing(`fan-${i % 3}`, { i })));
    const { rows } = await owner.query(`
      select count(*)::integer as deliveries, count(*) filter (where position < before)::integer as inverted
        from (select d.position, lag(d.position) over (partition by d.destination, d.aggregate_key order by d.sequence) as before
                from outbox.delivery d join outbox.event e on e.id = d.event_id where e.aggregate_id like 'fan-%') x`);
    expect(rows).toEqual([{ deliveries: 900, inverted: 0 }]);
  });

  it('an event type without routes takes a sequence and has no delivery', async () => {
    expect(
      await append(writers, thing('quiet'), thing('quiet', {}, { type: 'thing.unrouted' }), thing('quiet')),
    ).toEqual([1n, 2n, 3n]);
    const { rows } = await owner.query(
      `select array_agg(distinct d.sequence order by d.sequence) as with_delivery from outbox.delivery d
         join outbox.event e on e.id = d.event_id where e.aggregate_id = 'quiet'`,
    );
    expect(rows).toEqual([{ with_delivery: ['1', '3'] }]);
  });

  it('case 56: invoice 42 and payment 42 are separate aggregates with separate keys, and so are a:b/c and a/b:c', async () => {
    expect(
      await append(writers, thing('42'), thing('42', {}, { type: 'other.happened', aggregate_type: 'other' })),
    ).toEqual([1n, 1n]);
    const { rows } = await owner.query(`
      select outbox.aggregate_key('invoice', '42') = outbox.aggregate_key('payment', '42') as same,
             outbox.aggregate_key('a:b', 'c') = outbox.aggregate_key('a', 'b:c') as shifted,
             outbox.aggregate_key('a', 'bc') = outbox.aggregate_key('ab', 'c') as joined`);
    expect(rows).toEqual([{ same: false, shifted: false, joined: false }]);
  });

  it('spread evenly over all 64 partitions', async () => {
    const { rows } = await owner.query(`
      select count(*)::integer as partitions, min(n)::integer as least, max(n)::integer as most
        from (select get_byte(uuid_send(outbox.aggregate_key('thing', i::text)), 0) & 63 as p, count(*) as n
                from generate_series(1, 6400) i group by p) x`);
    expect(rows[0].partitions).toBe(64);
    expect(rows[0].least).toBeGreaterThan(60);
    expect(rows[0].most).toBeLessThan(140);
  });

  it('have the partition that follows from their key', async () => {
    await append(writers, ...Array.from({ length: 100 }, (_, i) => thing(`partition-${i}`)));
    const { rows } = await owner.query(
      `select count(distinct partition) > 30 as spread, bool_and(partition = get_byte(uuid_send(aggregate_key), 0) & 63) as from_key
         from outbox.delivery`,
    );
    expect(rows).toEqual([{ spread: true, from_key: true }]);
  });

  it('never understate the size of the envelope that the relay will build', async () => {
    const text = fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 60 })
      .filter((value) => value.isWellFormed() && !value.includes('\0'));
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(text, fc.constantFrom('\uFFFE\uFFFF'.repeat(30), '"\\\n'.repeat(60), 'İıŞ😀'.repeat(20))),
        fc.jsonValue({ stringUnit: 'binary' }).filter((value) => !/\\u(0000|d[89a-f])/.test(JSON.stringify(value))),
        fc.option(fc.constantFrom('\uFFFF'.repeat(200), 'c'.repeat(300)), { nil: undefined }),
        async (aggregateId, data, correlationid) => {
          const metadata = correlationid === undefined ? undefined : { correlationid };
          const { rows: appended } = await writers.query('select id from outbox.append($1)', [
            JSON.stringify([thing(aggregateId, data, metadata === undefined ? {} : { metadata })]),
          ]);
          const { rows } = await owner.query(
            `select e.*, e.data::text as text, d.bytes, i.source from outbox.event e join outbox.delivery d on d.event_id = e.id, outbox.installation i
              where e.id = $1 limit 1`,
            [appended[0].id],
          );
          const row = rows[0];
          const body = buildEnvelope({
            id: row.id,
            source: row.source,
            type: row.type,
            schemaVersion: row.schema_version,
            aggregateType: row.aggregate_type,
            aggregateId: row.aggregate_id,
            sequence: row.sequence,
            occurredAt: '2026-11-30T09:09:44.123456Z',
            data: row.text,
            metadata: row.metadata,
          });
          expect(Buffer.byteLength(body)).toBeLessThanOrEqual(row.bytes);
          // eslint-disable-next-line no-control-regex -- what SQS takes: tab, line feed, carriage return, and from space on
          expect(body).toMatch(/^[\x09\x0A\x0D\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]*$/u);
          expect(JSON.parse(body).data).toEqual(JSON.parse(JSON.stringify(data)));
        },
      ),
      { numRuns: 150 },
    );
  });
});

describe('big numbers and texts', () => {
  it('come out digit by digit, as the database keeps them', async () => {
    const { rows } = await writers.query(
      `select id from outbox.append('[{"type": "thing.happened", "aggregate_type": "thing", "aggregate_id": "big",
         "data": {"exact": 9007199254740993, "tiny": 1.10, "huge": 1e25}}]')`,
    );
    const stored = await owner.query('select data::text as data from outbox.event where id = $1', [rows[0].id]);
    expect(stored.rows[0].data).toContain('9007199254740993');
    expect(stored.rows[0].data).toContain('1.10');
  });

  it('gives an id of version 7 where the caller gave none, and keeps the one it gave', async () => {
    const id = '01920000-0000-7000-8000-00000000abcd';
    const { rows } = await writers.query('select id from outbox.append($1)', [
      JSON.stringify([thing('ids'), thing('ids', {}, { id })]),
    ]);
    expect(rows[0].id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/);
    expect(Math.abs(Number.parseInt(rows[0].id.replace('-', '').slice(0, 12), 16) - Date.now())).toBeLessThan(60_000);
    expect(rows[1].id).toBe(id);
  });
});

describe('refuses, before anything is written,', () => {
  const long = 'x'.repeat(201);
  it.each<[what: string, events: unknown, code: string, message: RegExp]>([
    ['what is no array', {}, 'OB001', /must be a JSON array/],
    ['an event that is no object', ['x'], 'OB001', /events\[0\] must be an object/],
    ['an unknown key', [thing('a', {}, { aggregateId: 'a' })], 'OB001', /events\[0\] has a key/],
    ['a missing type', [{ ...thing('a'), type: undefined }], 'OB001', /events\[0\]\.type/],
    ['an unknown type', [thing('a', {}, { type: 'nobody.knows' })], 'OB002', /events\[0\]\.type/],
    ['an unknown version of a type', [thing('a', {}, { schema_version: 7 })], 'OB002', /events\[0\]\.type/],
    ['a version that is no integer', [thing('a', {}, { schema_version: 1.5 })], 'OB001', /events\[0\]\.schema_version/],
    ["another aggregate's type", [thing('a', {}, { aggregate_type: 'other' })], 'OB002', /events\[0\]\.aggregate_type/],
    ['an empty aggregate id', [thing('a'), thing('')], 'OB001', /events\[1\]\.aggregate_id/],
    ['an aggregate id of 201 characters', [thing(long)], 'OB001', /events\[0\]\.aggregate_id/],
    ['an aggregate id that is a number', [thing('a', {}, { aggregate_id: 7 })], 'OB001', /events\[0\]\.aggregate_id/],
    ['missing data', [{ ...thing('a'), data: undefined }], 'OB001', /events\[0\]\.data/],
    ['an id that is no UUID', [thing('a', {}, { id: '7' })], 'OB001', /events\[0\]\.id/],
    ['an id that is null', [thing('a', {}, { id: null })], 'OB001', /events\[0\]\.id/],
    ['metadata of another kind', [thing('a', {}, { metadata: { user: 'x' } })], 'OB001', /events\[0\]\.metadata/],
    [
      'a time that only PostgreSQL understands',
      [thing('a', {}, { occurred_at: 'tomorrow' })],
      'OB001',
      /events\[0\]\.occurred_at/,
    ],
    [
      'a day that does not exist',
      [thing('a', {}, { occurred_at: '2026-02-30T00:00:00Z' })],
      'OB001',
      /events\[0\]\.occurred_at/,
    ],
    ["data over a destination's limit", [thing('a', { s: 'x'.repeat(200_000) })], 'OB003', /destination "small"/],
    ['U+0000 in a string', [thing('a', { s: '\0' })], '22P05', /Unicode/],
  ])('%s', async (_what, events, code, message) => {
    const before = await owner.query('select count(*) from outbox.event');
    const error = await writers
      .query('select * from outbox.append($1)', [JSON.stringify(events)])
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
    const after = await owner.query('select count(*) from outbox.event');
    expect(after.rows).toEqual(before.rows);
  });

  it('case 58: synchronous_commit off in the session of the writer', async () => {
    await transaction(writers, async (tx) => {
      await tx.query('set local synchronous_commit = off');
      const error = await append(tx, thing('a')).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'OB004' });
      throw new Error('undo');
    }).catch(() => {});
  });

  it('and never repeats a value of the payload in what it says', async () => {
    const canary = 'canary-7f3a';
    const error = await writers
      .query('select * from outbox.append($1)', [JSON.stringify([thing('a', { s: canary + 'x'.repeat(200_000) })])])
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'OB003' });
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain(canary);
  });
});

describe('the catalogue', () => {
  it('installs twice, changes routes, and refuses what would break the order of events on their way', async () => {
    const types = [{ type: 'thing.happened' }];
    await installCatalogue(owner, types, [{ name: 'fixed', kind: 'sqs-fifo' }]);
    await installCatalogue(owner, types, [{ name: 'fixed', kind: 'sqs-fifo' }]);
    await expect(installCatalogue(owner, types, [{ name: 'fixed', kind: 'sqs' }])).rejects.toMatchObject({
      code: 'OB005',
    });
    await expect(
      installCatalogue(owner, types, [{ name: 'fixed', kind: 'sqs-fifo', group_id: 'aggregate-type-and-id' }]),
    ).rejects.toMatchObject({ code: 'OB005' });
    await expect(
      installCatalogue(
        owner,
        [{ type: 'thing.happened', aggregate_type: 'moved' }],
        [{ name: 'fixed', kind: 'sqs-fifo' }],
      ),
    ).rejects.toMatchObject({ code: 'OB005' });
    const { rows } = await owner.query(
      `select d.name from outbox.route r join outbox.destination d on d.number = r.destination where r.type = 'thing.happened'`,
    );
    expect(rows).toEqual([{ name: 'fixed' }]);
  });

  it('decides where an append sends to and how large it may be: routes and limits as they were installed last', async () => {
    const destinations = [
      { name: 'here', kind: 'sqs-fifo', max_bytes: 50_000 },
      { name: 'there', kind: 'sqs', max_bytes: 10_000 },
    ] as const;
    const append20k = (aggregateId: string) => append(writers, thing(aggregateId, { s: 'x'.repeat(20_000) }));
    await installCatalogue(owner, [{ type: 'thing.happened' }], destinations);
    await expect(append20k('rerouted')).rejects.toMatchObject({
      code: 'OB003',
      message: expect.stringMatching(/destination "there"/),
    });
    await append(writers, thing('rerouted'));
    await installCatalogue(owner, [{ type: 'thing.happened', destinations: ['here'] }], destinations);
    await append20k('rerouted');
    // Its limit changes without a word about the type.
    await installCatalogue(
      owner,
      [{ type: 'thing.unrouted', destinations: [] }],
      [{ ...destinations[0], max_bytes: 5_000 }],
    );
    await expect(append20k('rerouted')).rejects.toMatchObject({
      code: 'OB003',
      message: expect.stringMatching(/destination "here"/),
    });
    const { rows } = await owner.query(
      `select d.sequence, array_agg(g.name order by d.position) as destinations
         from outbox.delivery d join outbox.event e on e.id = d.event_id join outbox.destination g on g.number = d.destination
        where e.aggregate_id = 'rerouted' group by d.sequence order by d.sequence`,
    );
    expect(rows).toEqual([
      { sequence: '1', destinations: ['here', 'there'] },
      { sequence: '2', destinations: ['here'] },
    ]);
  });
});
