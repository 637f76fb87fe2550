/** One relay of a chaos run, in a process of its own so that it can be killed and frozen. Its options are its one argument, as JSON. */
import { SQSClient } from '@aws-sdk/client-sqs';
import { writeSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import pg from 'pg';
import {
  type Publisher,
  type RelayConnection,
  runRelay,
  sqsPublisher,
  systemClock,
} from '../../shared/outbox/index.ts';
import { awaitPoints, type CrashAt, watchedClock, watchedConnection, watchedPublisher } from './await-points.ts';
import { runNaiveRelay } from './naive-relay.ts';
import { unexplainedLog } from './unexplained.ts';

/** `cursor` is ours in a database whose `outbox.find` does not look up. */
export type RelayKind = 'ours' | 'naive' | 'cursor';

export interface RelayProcessOptions {
  readonly kind: RelayKind;
  readonly index: number;
  readonly database: {
    readonly host: string;
    readonly port: number;
    readonly database: string;
    readonly user: string;
    readonly password: string;
  };
  /** Port of the fault proxy on 127.0.0.1. */
  readonly queuePort: number;
  /** Destination → queue. */
  readonly urls: Readonly<Record<string, string>>;
  readonly leaseSeconds: number;
  readonly timeoutMs: number;
  readonly crash?: CrashAt;
  readonly verbose: boolean;
}

const options = JSON.parse(process.argv[2] ?? '') as RelayProcessOptions;
// Most relays are killed and would take what they compiled with them.
flushCompileCache();
const points = awaitPoints(options.crash);
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
// The terminal's Ctrl-C reaches this process as well; its parent decides what ends when.
process.on('SIGINT', () => {});
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));

const client = new SQSClient({
  endpoint: `http://127.0.0.1:${options.queuePort}`,
  region: 'us-east-1',
  credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  useQueueUrlAsEndpoint: false,
  maxAttempts: 1,
});
const publishers: Record<string, Publisher> = Object.fromEntries(
  Object.entries(options.urls).map(([name, queueUrl]) => [
    name,
    watchedPublisher(
      sqsPublisher({ client, queueUrl, fifo: queueUrl.endsWith('.fifo'), timeoutMs: options.timeoutMs }),
      points,
    ),
  ]),
);

async function connect(): Promise<RelayConnection> {
  const connection = new pg.Client({ ...options.database, connectionTimeoutMillis: 5_000, query_timeout: 10_000 });
  connection.on('error', () => {});
  await points.around('connect', () => connection.connect());
  return watchedConnection(connection, points);
}

const log = unexplainedLog(
  (report) => void writeSync(1, `${JSON.stringify(report)}\n`),
  options.verbose ? (message, fields) => console.error(`relay-${options.index}`, message, fields) : undefined,
);

switch (options.kind) {
  case 'ours':
  case 'cursor':
    await runRelay({
      connect,
      publishers,
      log,
      slot: `relay-${options.index}`,
      mode: 'continuous',
      leaseSeconds: options.leaseSeconds,
      concurrency: 4,
      policy: { attempts: 12, baseMs: 50, capMs: 1_000 },
      clock: watchedClock(systemClock, points),
      signal: stop.signal,
    });
    break;
  case 'naive':
    await runNaiveRelay({ connect, publishers, signal: stop.signal });
    break;
}
process.exit(0);
