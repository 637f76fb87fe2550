import { setTimeout as delay } from 'node:timers/promises';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type Figure, median, quantile } from '../harness/figure.ts';
import {
  createPersons,
  person,
  type PersonBench,
  personBench,
  type PersonOutbox,
  writePerson,
} from './person-events.ts';

const RATE = 500;
const ROUNDS = 3;
/** As many as a process has in memory, so that all are warm. */
const WARM = 1_000;

/**
 * Events at a fixed rate, whether or not the server keeps up.
 *
 * @returns milliseconds of each, from when it was due until it was committed
 */
async function load(persons: PersonBench, outbox: PersonOutbox, seconds: number, who: () => number): Promise<number[]> {
  const times: number[] = [];
  const open = new Set<Promise<void>>();
  const start = performance.now();
  for (let n = 0; n < seconds * RATE; n += 1) {
    const due = start + (n * 1000) / RATE;
    const early = due - performance.now();
    if (early > 1) await delay(early);
    const one = (async () => {
      const subject = who();
      // The keys first: they take a connection of the same pool.
      const writer = await outbox.prepare({ subjects: [person(subject)] });
      const client = await persons.pool.connect();
      try {
        await writePerson(writer, client, 'person.sealed', subject);
      } finally {
        client.release();
      }
      times.push(performance.now() - due);
    })().finally(() => open.delete(one));
    open.add(one);
  }
  await Promise.all(open);
  return times;
}

/** Milliseconds of CPU that an event takes, in this process and the server's. */
async function cpuOfEvent(persons: PersonBench, work: () => Promise<number[]>): Promise<[number[], number]> {
  const before = persons.cpuSeconds();
  const times = await work();
  return [times, ((persons.cpuSeconds() - before) * 1000) / times.length];
}

async function measure(bench: Bench, persons: PersonBench): Promise<Figure[]> {
  const all = sized(bench, 100_000);
  const seconds = sized(bench, 20);
  bench.note(`keys of ${all} persons`);
  await createPersons(persons.process().keyring, all);
  const random = (below: number): number => Math.floor(Math.random() * below);
  const warm = persons.process();
  await createPersons(warm.keyring, WARM);
  const cold = persons.process();
  await load(persons, warm.outbox, 2, () => random(WARM));
  await load(persons, cold.outbox, 2, () => random(all));

  const ratios: number[] = [];
  const p99: { warm: number[]; cold: number[] } = { warm: [], cold: [] };
  const cpu: { warm: number[]; cold: number[] } = { warm: [], cold: [] };
  cold.vault.reads = 0;
  const callsBefore = persons.kms.calls.length;
  let written = 0;
  for (let n = 0; n < ROUNDS; n += 1) {
    const [ofWarm, warmCpu] = await cpuOfEvent(persons, () => load(persons, warm.outbox, seconds, () => random(WARM)));
    const [ofCold, coldCpu] = await cpuOfEvent(persons, () => load(persons, cold.outbox, seconds, () => random(all)));
    cpu.warm.push(warmCpu);
    cpu.cold.push(coldCpu);
    written += ofCold.length;
    p99.warm.push(quantile(ofWarm, 0.99));
    p99.cold.push(quantile(ofCold, 0.99));
    ratios.push(quantile(ofCold, 0.99) / quantile(ofWarm, 0.99));
  }
  const people = all.toLocaleString('en-US');
  return [
    {
      name: `${RATE} events/s over ${people} persons: reads of the vault, per prepare`,
      value: cold.vault.reads / written,
      unit: 'reads',
      goal: { atMost: 1 },
    },
    { name: '  append p99 ÷ of persons in memory', value: median(ratios), unit: '×', goal: { atMost: 1.3 } },
    { name: '  append p99', value: median(p99.cold), unit: 'ms' },
    { name: '  append p99, persons in memory', value: median(p99.warm), unit: 'ms' },
    { name: '  CPU of an event, process and server', value: median(cpu.cold), unit: 'ms' },
    { name: '  CPU of an event, persons in memory', value: median(cpu.warm), unit: 'ms' },
    { name: '  calls of KMS', value: persons.kms.calls.length - callsBefore, unit: 'calls' },
  ];
}

export const persons: Benchmark = {
  name: 'persons',
  what: '500 events/s over 100,000 persons, more than a process keeps in memory, against a thousand',
  minutes: 3.5,
  async run(bench) {
    const made = await personBench(bench.server);
    try {
      return await measure(bench, made);
    } finally {
      await made.end();
    }
  },
};
