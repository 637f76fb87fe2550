import { setTimeout as delay } from 'node:timers/promises';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { coresInUse } from '../harness/cores.ts';
import { type Figure, median, quantile } from '../harness/figure.ts';
import {
  createPersons,
  person,
  type PersonBench,
  personBench,
  type PersonOutbox,
  writePerson,
} from './person-events.ts';

/** The rate of the goal, which two cores barely carry, and one that leaves cores free: then nobody waits for a core, and what is left is what cold keys take. */
const RATES = [500, 200] as const;
const ROUNDS = 3;
/** As many as a process has in memory, so that all are warm. */
const WARM = 1_000;
const GOAL = { atMost: 1.3 };

/**
 * Events at a fixed rate, whether or not the server keeps up.
 *
 * @returns milliseconds of each, from when it was due until it was committed
 */
async function load(
  persons: PersonBench,
  outbox: PersonOutbox,
  rate: number,
  seconds: number,
  who: () => number,
): Promise<number[]> {
  const times: number[] = [];
  const open = new Set<Promise<void>>();
  const start = performance.now();
  for (let n = 0; n < seconds * rate; n += 1) {
    const due = start + (n * 1000) / rate;
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

interface Round {
  readonly count: number;
  /** Milliseconds. */
  readonly p99: number;
  /** Milliseconds of CPU that an event takes, in this process and the server's. */
  readonly cpu: number;
  /** Of the machine's. */
  readonly cores: number;
}

async function roundOf(persons: PersonBench, work: () => Promise<number[]>): Promise<Round> {
  const cpuSeconds = persons.cpuMeter();
  const cores = coresInUse();
  const times = await work();
  const cpu = (cpuSeconds() * 1000) / times.length;
  return { count: times.length, p99: quantile(times, 0.99), cpu, cores: cores() };
}

async function measure(bench: Bench, persons: PersonBench): Promise<Figure[]> {
  const all = sized(bench, 100_000);
  const seconds = sized(bench, 20);
  bench.note(`keys of ${all} persons`);
  await createPersons(persons.process().keyring, all);
  await bench.server.recycleWal();
  const random = (below: number): number => Math.floor(Math.random() * below);
  const warm = persons.process();
  await createPersons(warm.keyring, WARM);
  const cold = persons.process();
  const ofWarm = (rate: number, length: number) => load(persons, warm.outbox, rate, length, () => random(WARM));
  const ofCold = (rate: number, length: number) => load(persons, cold.outbox, rate, length, () => random(all));

  const figures: Figure[] = [];
  const callsBefore = persons.kms.calls.length;
  for (const rate of RATES) {
    bench.note(`${rate} events/s`);
    await ofWarm(rate, 2);
    await ofCold(rate, 2);
    cold.vault.reads = 0;
    const warmRounds: Round[] = [];
    const coldRounds: Round[] = [];
    for (let n = 0; n < ROUNDS; n += 1) {
      warmRounds.push(await roundOf(persons, () => ofWarm(rate, seconds)));
      coldRounds.push(await roundOf(persons, () => ofCold(rate, seconds)));
    }
    const ratio = median(coldRounds.map(({ p99 }, n) => p99 / (warmRounds[n]?.p99 ?? Number.NaN)));
    const written = coldRounds.reduce((sum, { count }) => sum + count, 0);
    const of = (rounds: readonly Round[], what: keyof Round): number => median(rounds.map((it) => it[what]));
    figures.push(
      {
        name: `${rate} events/s over ${all.toLocaleString('en-US')} persons: reads of the vault, per prepare`,
        value: cold.vault.reads / written,
        unit: 'reads',
        goal: { atMost: 1 },
      },
      // The goal is that of the first rate.
      {
        name: '  append p99 ÷ of persons in memory',
        value: ratio,
        unit: '×',
        ...(rate === RATES[0] && { goal: GOAL }),
      },
      { name: '  append p99', value: of(coldRounds, 'p99'), unit: 'ms' },
      { name: '  append p99, persons in memory', value: of(warmRounds, 'p99'), unit: 'ms' },
      { name: '  CPU of an event, process and server', value: of(coldRounds, 'cpu'), unit: 'ms' },
      { name: '  CPU of an event, persons in memory', value: of(warmRounds, 'cpu'), unit: 'ms' },
      { name: '  cores in use', value: of(coldRounds, 'cores'), unit: 'cores' },
      { name: '  cores in use, persons in memory', value: of(warmRounds, 'cores'), unit: 'cores' },
    );
  }
  return [...figures, { name: 'calls of KMS meanwhile', value: persons.kms.calls.length - callsBefore, unit: 'calls' }];
}

export const persons: Benchmark = {
  name: 'persons',
  what: '500 events/s over 100,000 persons, more than a process keeps in memory, against a thousand; and 200',
  minutes: 6,
  async run(bench) {
    const made = await personBench(bench.server);
    try {
      return await measure(bench, made);
    } finally {
      await made.end();
    }
  },
};
