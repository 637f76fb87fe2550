/** A relay in a process of its own, as a function would run it, with a stopwatch at its connection. */
import pg from 'pg';
import { runRelay, sqsPublisher } from '../shared/outbox/index.ts';
import { isFind } from './harness/fetch-under-test.ts';
import { answer, now } from './harness/process.ts';
import { sqsClient } from './harness/queue.ts';
import type { RelayResult, RelayStart } from './harness/relay.ts';

const stop = new AbortController();
let statements = 0;
let fetchMs: number[] = [];

/** Warnings and errors only: a benchmark that is refused something must not look fast. */
const log = {
  debug() {},
  info() {},
  warn: (message: string, ...fields: unknown[]) => console.error('relay:', message, ...fields),
  error: (message: string, ...fields: unknown[]) => console.error('relay:', message, ...fields),
};

async function connect(start: RelayStart): Promise<pg.Client> {
  const client = new pg.Client(start.connection);
  await client.connect();
  const query = client.query.bind(client) as (text: string, values?: unknown[]) => Promise<pg.QueryResult>;
  const counted = async (text: string, values?: unknown[]): Promise<pg.QueryResult> => {
    statements += 1;
    const startedAt = performance.now();
    const result = await query(text, values);
    if (isFind(text, result.rows)) fetchMs.push(performance.now() - startedAt);
    return result;
  };
  return Object.assign(client, { query: counted });
}

answer({
  async run(start: RelayStart): Promise<RelayResult> {
    const client = sqsClient(start.queue);
    const publisher = sqsPublisher({ client, queueUrl: start.queue.queueUrl, fifo: true });
    const startedAt = now();
    const cpu = process.cpuUsage();
    const report = await runRelay({
      connect: () => connect(start),
      publishers: { queue: publisher },
      log,
      slot: start.slot,
      mode: start.mode,
      concurrency: start.concurrency,
      signal: stop.signal,
    });
    const { user, system } = process.cpuUsage(cpu);
    publisher.close();
    return {
      report,
      startedAt,
      seconds: (now() - startedAt) / 1000,
      cpuSeconds: (user + system) / 1e6,
      statements,
      fetchMs,
      peakRssMb: process.resourceUsage().maxRSS / 1024,
    };
  },
  /** Fetch times since the last question; milliseconds as the relay sees them. */
  fetchTimes() {
    const times = fetchMs;
    fetchMs = [];
    return times;
  },
  stop: () => stop.abort(),
});
