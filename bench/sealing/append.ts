import type pg from 'pg';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type Figure, median } from '../harness/figure.ts';
import {
  createPersons,
  person,
  type PersonBench,
  personBench,
  type PersonEvent,
  type PersonOutbox,
  writePerson,
} from './person-events.ts';

const ROUNDS = 12;
const PERSONS = 1_000;

/** Milliseconds a transaction, on average. */
async function round(outbox: PersonOutbox, client: pg.PoolClient, type: PersonEvent, count: number): Promise<number> {
  const start = performance.now();
  for (let n = 0; n < count; n += 1) {
    const subject = n % PERSONS;
    const writer = type === 'person.sealed' ? await outbox.prepare({ subjects: [person(subject)] }) : outbox;
    await writePerson(writer, client, type, subject);
  }
  return (performance.now() - start) / count;
}

async function measure(persons: PersonBench, count: number): Promise<Figure[]> {
  const { outbox, keyring } = persons.process();
  await createPersons(keyring, PERSONS);
  const client = await persons.pool.connect();
  try {
    const sealed: number[] = [];
    const clear: number[] = [];
    for (const type of ['person.sealed', 'person.clear'] as const) await round(outbox, client, type, count);
    for (let n = 0; n < ROUNDS; n += 1) {
      // Who goes first takes turns too.
      if (n % 2 === 0) sealed.push(await round(outbox, client, 'person.sealed', count));
      clear.push(await round(outbox, client, 'person.clear', count));
      if (n % 2 === 1) sealed.push(await round(outbox, client, 'person.sealed', count));
    }
    return [
      {
        name: 'transaction with 5 sealed fields ÷ with the same in clear',
        value: median(sealed.map((ms, n) => ms / (clear[n] ?? Number.NaN))),
        unit: '×',
        goal: { atMost: 1.15 },
      },
      { name: '  sealed, prepared from memory', value: median(sealed), unit: 'ms' },
      { name: '  in clear', value: median(clear), unit: 'ms' },
    ];
  } finally {
    client.release();
  }
}

export const append: Benchmark = {
  name: 'append',
  what: 'a business transaction with five sealed fields of a person in memory against the same in clear',
  minutes: 1,
  async run(bench: Bench) {
    const persons = await personBench(bench.server);
    try {
      return await measure(persons, sized(bench, 500));
    } finally {
      await persons.end();
    }
  },
};
