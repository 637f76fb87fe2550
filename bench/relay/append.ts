import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type Figure, median, quantile } from '../harness/figure.ts';
import { AGGREGATES, BYTES } from '../harness/messages.ts';
import { BARE_INSERT, ONE_TABLE_OUTBOX } from '../harness/one-table-outbox.ts';
import type { BenchDatabase } from '../harness/server.ts';

const ROUNDS = 10;
const DATA = { text: 'x'.repeat(BYTES) };
const LITERAL = JSON.stringify(DATA);

export const BUSINESS_TABLES = `
  create table customer (id integer primary key, invoices integer not null default 0, due bigint not null default 0);
  insert into customer select generate_series(0, ${AGGREGATES - 1});
  create table business_invoice (
    id          uuid primary key,
    customer_id integer not null references customer,
    total_minor bigint not null,
    currency    text not null,
    lines       jsonb not null,
    created_at  timestamptz not null default now()
  );
  create index on business_invoice (customer_id, created_at);
  grant select, insert, update on customer, business_invoice to sealed_writer`;

export type WriteEvent = (client: pg.Client | pg.PoolClient, id: string, aggregate: number) => Promise<unknown>;

const withAppend: WriteEvent = (client, id, aggregate) =>
  client.query('select id, sequence from outbox.append($1)', [
    JSON.stringify([
      { id, type: 'thing.happened', aggregate_type: 'thing', aggregate_id: `thing-${aggregate}`, data: DATA },
    ]),
  ]);

const withBareInsert: WriteEvent = (client, id, aggregate) =>
  client.query(BARE_INSERT, [id, 'thing', `thing-${aggregate}`, 'thing.happened', JSON.stringify(DATA)]);

/** An invoice with its lines, the customer's balance, and the event: five statements, one commit. */
export async function businessTransaction(client: pg.Client | pg.PoolClient, writeEvent: WriteEvent): Promise<void> {
  const id = randomUUID();
  const customer = Math.floor(Math.random() * AGGREGATES);
  await client.query('begin');
  await client.query(
    'insert into business_invoice (id, customer_id, total_minor, currency, lines) values ($1, $2, $3, $4, $5)',
    [id, customer, 119_00, 'EUR', '[{"article": "chair", "quantity": 2, "priceMinor": 5950}]'],
  );
  await client.query('update customer set invoices = invoices + 1, due = due + $2 where id = $1', [customer, 119_00]);
  await writeEvent(client, id, customer);
  await client.query('commit');
}

/** Milliseconds that each transaction took, all clients together. */
async function round(clients: readonly pg.Client[], each: number, writeEvent: WriteEvent): Promise<number[]> {
  const times: number[] = [];
  await Promise.all(
    clients.map(async (client) => {
      for (let n = 0; n < each; n += 1) {
        const start = performance.now();
        await businessTransaction(client, writeEvent);
        times.push(performance.now() - start);
      }
    }),
  );
  return times;
}

interface Comparison {
  readonly ratio: number;
  readonly appendMs: number;
  readonly bareMs: number;
}

/** Rounds of both in turn, so that what else the machine does meets both; the ratio is the median of the rounds' ratios. */
async function compare(clients: readonly pg.Client[], each: number): Promise<Comparison> {
  await round(clients, Math.ceil(each / 4), withAppend);
  await round(clients, Math.ceil(each / 4), withBareInsert);
  const append: number[] = [];
  const bare: number[] = [];
  for (let n = 0; n < ROUNDS; n += 1) {
    bare.push(mean(await round(clients, each, withBareInsert)));
    append.push(mean(await round(clients, each, withAppend)));
  }
  return {
    ratio: median(append.map((ms, n) => ms / (bare[n] ?? Number.NaN))),
    appendMs: median(append),
    bareMs: median(bare),
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

type Part = 'append' | 'bare' | 'catalogue' | 'stream' | 'event' | 'delivery';

/** What append runs for one event, each alone; what is left of its time is checks, expressions, and going from one to the next. */
const PARTS: Readonly<Record<Part, (id: string, aggregate: string) => string>> = {
  append: (id, aggregate) =>
    `select * from outbox.append('[{"id":"${id}","type":"thing.happened","aggregate_type":"thing","aggregate_id":"${aggregate}","data":${LITERAL}}]')`,
  bare: (id, aggregate) =>
    `insert into one_table_outbox (id, aggregate_type, aggregate_id, type, payload)
     values ('${id}', 'thing', '${aggregate}', 'thing.happened', '${LITERAL}')`,
  catalogue: () =>
    `select t.schema_version, t.aggregate_type, t.destinations, t.max_bytes, i.epoch, i.source
       from outbox.event_type t, outbox.installation i where t.type = 'thing.happened' order by t.schema_version desc limit 1`,
  stream: (_id, aggregate) =>
    `insert into outbox.stream as s (aggregate_type, aggregate_id, sequence) values ('thing', '${aggregate}', 1)
         on conflict (aggregate_type, aggregate_id) do update set sequence = s.sequence + 1 returning sequence`,
  event: (id, aggregate) =>
    `insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, occurred_at)
     values ('${id}', 'thing', '${aggregate}', 1, 'thing.happened', 1, '${LITERAL}', now())`,
  delivery: (id) =>
    `insert into outbox.delivery (event_id, destination, partition, aggregate_key, sequence, bytes)
     values ('${id}', 1, get_byte(uuid_send('${id}'), 15) & 63, '${id}', 1, 1500)`,
};

/** Milliseconds inside the server, without the way there, of each part; the parts in turn. */
async function serverTimes(database: BenchDatabase): Promise<(part: Part) => number> {
  const client = await database.connect('postgres');
  const spent: Record<Part, number[]> = { append: [], bare: [], catalogue: [], stream: [], event: [], delivery: [] };
  const parts = Object.keys(PARTS) as Part[];
  for (let n = 0; n < 500; n += 1) {
    for (const part of parts) {
      const sql = PARTS[part](randomUUID(), `thing-${n}`);
      const { rows } = await client.query(`explain (analyze, format json) ${sql}`);
      spent[part].push(rows[0]['QUERY PLAN'][0]['Execution Time']);
    }
  }
  return (part) => quantile(spent[part], 0.5);
}

async function run(bench: Bench): Promise<Figure[]> {
  const database = await bench.server.database();
  try {
    const owner = await database.connect('sealed_migrator');
    await owner.query(ONE_TABLE_OUTBOX);
    await owner.query(BUSINESS_TABLES);
    const clients = await Promise.all(Array.from({ length: 8 }, () => database.connect('sealed_writer')));
    const one = await compare(clients.slice(0, 1), sized(bench, 1000));
    const eight = await compare(clients, sized(bench, 400));
    const server = await serverTimes(database);
    return [
      {
        name: 'transaction with append ÷ with bare insert, 1 client',
        value: one.ratio,
        unit: '×',
        goal: { atMost: 1.25 },
      },
      { name: '  with append', value: one.appendMs, unit: 'ms' },
      { name: '  with bare insert', value: one.bareMs, unit: 'ms' },
      {
        name: 'transaction with append ÷ with bare insert, 8 clients',
        value: eight.ratio,
        unit: '×',
        goal: { atMost: 1.4 },
      },
      { name: '  with append', value: eight.appendMs, unit: 'ms' },
      { name: '  with bare insert', value: eight.bareMs, unit: 'ms' },
      { name: 'outbox.append of one event, in the server', value: server('append'), unit: 'ms' },
      ...(['catalogue', 'stream', 'event', 'delivery'] as const).map((part) => ({
        name: `  its statement alone: ${part}`,
        value: server(part),
        unit: 'ms',
      })),
      { name: 'bare insert of one event, in the server', value: server('bare'), unit: 'ms' },
    ];
  } finally {
    await database.drop();
  }
}

export const append: Benchmark = {
  name: 'append',
  what: 'a business transaction with one append against the same with a bare insert',
  minutes: 3,
  run,
};
