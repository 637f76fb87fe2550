import type pg from 'pg';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type Figure, median } from '../harness/figure.ts';
import {
  createPersons,
  person,
  type PersonBench,
  personBench,
  type PersonOutbox,
  writePerson,
} from './person-events.ts';
import { primitives } from './primitives.ts';

const ROUNDS = 12;
const PERSONS = 1_000;

/** How the five fields are written: sealed by the library; in clear; or as texts of the length of sealed ones, for which `node:crypto` alone has worked. */
type Way = 'sealed' | 'clear' | 'floor';

const crypto = primitives();

/** What stands before the bytes in a sealed text. */
const HEADER = 'x'.repeat('sealed.1.contact.'.length + 22 + '.1.'.length);

function bareSealed(): string {
  const { ciphertext, tag } = crypto.seal();
  return HEADER + Buffer.concat([tag, ciphertext, tag]).toString('base64url');
}

async function write(outbox: PersonOutbox, client: pg.PoolClient, way: Way, n: number): Promise<void> {
  switch (way) {
    case 'sealed':
      return writePerson(await outbox.prepare({ subjects: [person(n)] }), client, 'person.sealed', n);
    case 'clear':
      return writePerson(outbox, client, 'person.clear', n);
    case 'floor': {
      const [name, email, address, phone, note] = [
        bareSealed(),
        bareSealed(),
        bareSealed(),
        bareSealed(),
        bareSealed(),
      ] as const;
      return writePerson(outbox, client, 'person.clear', n, { name, email, address, phone, note });
    }
  }
}

/** Milliseconds a transaction, on average. */
async function round(outbox: PersonOutbox, client: pg.PoolClient, way: Way, count: number): Promise<number> {
  const start = performance.now();
  for (let n = 0; n < count; n += 1) await write(outbox, client, way, n % PERSONS);
  return (performance.now() - start) / count;
}

async function measure(persons: PersonBench, count: number): Promise<Figure[]> {
  const { outbox, keyring } = persons.process();
  await createPersons(keyring, PERSONS);
  const client = await persons.pool.connect();
  try {
    const took: Record<Way, number[]> = { sealed: [], clear: [], floor: [] };
    const ways = Object.keys(took) as Way[];
    for (const way of ways) await round(outbox, client, way, count);
    for (let n = 0; n < ROUNDS; n += 1) {
      // Who goes first takes turns too.
      for (const way of n % 2 === 0 ? ways : ways.toReversed()) took[way].push(await round(outbox, client, way, count));
    }
    const overClear = (way: Way): number => median(took[way].map((ms, n) => ms / (took.clear[n] ?? Number.NaN)));
    return [
      {
        name: 'transaction with 5 sealed fields ÷ with the same in clear',
        value: overClear('sealed'),
        unit: '×',
        goal: { atMost: 1.15 },
      },
      {
        name: '  with 5 texts as long, sealed by node:crypto alone and not checked',
        value: overClear('floor'),
        unit: '×',
      },
      { name: '  sealed, prepared from memory', value: median(took.sealed), unit: 'ms' },
      { name: '  in clear', value: median(took.clear), unit: 'ms' },
    ];
  } finally {
    client.release();
  }
}

export const append: Benchmark = {
  name: 'append',
  what: 'a business transaction with five sealed fields of a person in memory against the same in clear',
  minutes: 1.5,
  async run(bench: Bench) {
    const persons = await personBench(bench.server);
    try {
      return await measure(persons, sized(bench, 500));
    } finally {
      await persons.end();
    }
  },
};
