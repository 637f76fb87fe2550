import dns from 'node:dns';
import type { Context } from 'aws-lambda';
import pg from 'pg';
import { v7 } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { clientConfig, createPool, type DatabaseConfig } from '../../../shared/database/index.ts';
import { runRelay, systemClock } from '../../../shared/outbox/index.ts';
import { silentLog } from '../../../shared/telemetry/index.ts';
import { counterConsumer, createEffects } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { type ConnectionFault, databaseProxy } from '../../support/database-proxy.ts';
import type { TestUser } from '../../support/logins.ts';
import { append, recordingPublisher } from '../../support/outbox.ts';
import { installSample, invoiceOrder } from '../../support/sample.ts';
import { contextFor, fifoRecord, invoke } from '../../support/sqs-batch.ts';
import { sampleApi } from '../sample/api-harness.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const proxy = await databaseProxy(database.config('sealed_api').port);
const pools: pg.Pool[] = [];

/** As the functions connect, through the proxy, by a name that has to be looked up. */
const through = (user: TestUser): DatabaseConfig => ({ ...database.config(user), host: 'localhost', port: proxy.port });
const context = { awsRequestId: 'r', functionName: 'f', getRemainingTimeInMillis: () => 300_000 } as unknown as Context;

/** A function as Lambda loads it. */
async function loaded<T>(
  user: TestUser,
  load: () => Promise<T>,
  more: Readonly<Record<string, string>> = {},
): Promise<T> {
  const config = through(user);
  const variables = {
    DATABASE_HOST: config.host,
    DATABASE_PORT: String(config.port),
    DATABASE_NAME: config.database,
    DATABASE_USER: user,
    DATABASE_AUTH: 'password',
    DATABASE_PASSWORD: 'password' in config ? config.password : '',
    AWS_REGION: 'us-east-1',
    POWERTOOLS_LOG_LEVEL: 'SILENT',
    ...more,
  };
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  vi.resetModules();
  return load();
}

function pool(user: TestUser): pg.Pool {
  const made = createPool(through(user), { max: 1, applicationName: user, log: silentLog });
  pools.push(made);
  return made;
}

/** One run of a function, and in a word how it ended. `lift` ends the fault, for a run that waits for that; `lastsMs` says when, where the run counts time. */
type Run = (lift: () => void, lastsMs?: number) => Promise<string>;

const codeOf = (error: unknown): string => {
  const { code, message } = error as { code?: string; message?: string };
  return code ?? message ?? 'unknown';
};
const ended = (run: Promise<string>): Promise<string> => run.catch(codeOf);

const NOT_LOADED: Run = () => Promise.resolve('not loaded');

/** Each function, and how its run ends when nothing is wrong. */
const functions = {
  monitor: { user: 'sealed_monitor', works: 'measured', run: NOT_LOADED },
  janitor: { user: 'sealed_janitor', works: 'pruned', run: NOT_LOADED },
  migrate: { user: 'sealed_migrator', works: 'installed', run: NOT_LOADED },
  operator: { user: 'sealed_operator', works: 'done', run: NOT_LOADED },
  relay: { user: 'sealed_relay', works: 'sent', run: relay },
  consumer: { user: 'sealed_ledger', works: 'applied', run: NOT_LOADED },
  api: { user: 'sealed_api', works: '201', run: NOT_LOADED },
} satisfies Record<string, { user: TestUser; works: string; run: Run }>;
type Name = keyof typeof functions;
const NAMES = Object.keys(functions) as Name[];

/** Tries again by itself, so the fault is lifted in the middle of a run: after it was noticed twice, or has lasted for so long by the relay's own clock. */
async function relay(lift: () => void, lastsMs?: number): Promise<string> {
  await append(writer, { type: 'invoice.paid', aggregate_type: 'invoice', aggregate_id: v7(), data: {} });
  const noticed: string[] = [];
  let waited = 0;
  const queue = recordingPublisher();
  const { ended: end, published } = await runRelay({
    connect: async () => {
      const client = new pg.Client(clientConfig(through('sealed_relay')));
      client.on('error', () => {});
      await client.connect();
      return client;
    },
    publishers: { ledger: queue, analytics: queue, notifications: queue },
    log: {
      ...silentLog,
      error: (_, { code } = {}) => {
        noticed.push(String(code));
        if (lastsMs === undefined && noticed.length === 2) lift();
      },
    },
    slot: 'test',
    mode: 'drain',
    // A fault is waited for, as long as the relay does, in steps that are too short to notice.
    clock: {
      ...systemClock,
      sleep: (ms, signal) => {
        // Between two connections: the others, which a signal ends, go on beside one another.
        if (signal === undefined) waited += ms;
        if (lastsMs !== undefined && waited >= lastsMs) lift();
        return systemClock.sleep(Math.min(ms, 20), signal);
      },
    },
  });
  if (end !== 'drained' || published === 0) return `${end}, ${published} sent`;
  return noticed.length === 0 ? 'sent' : `sent after ${[...new Set(noticed)].join()}`;
}

beforeAll(async () => {
  await installSample(owner);
  await createEffects(database);
  const monitor = await loaded('sealed_monitor', () => import('../../../functions/monitor/index.ts'));
  const janitor = await loaded('sealed_janitor', () => import('../../../functions/janitor/index.ts'), {
    JANITOR_ARCHIVE: 'none',
    JANITOR_ALSO: '{}',
  });
  const migrate = await loaded('sealed_migrator', () => import('../../../functions/migrate/index.ts'));
  const operator = await loaded('sealed_operator', () => import('../../../functions/operator/index.ts'));
  const api = sampleApi(pool('sealed_api'));
  const { body } = await api.post('/invoices', invoiceOrder(v7()));
  const invoice = String(body['id']);
  const { handler } = counterConsumer({ name: 'counted', pool: pool('sealed_ledger') });
  let counted = 0;
  const runs: Record<Exclude<Name, 'relay'>, Run> = {
    monitor: () => ended(monitor.handler().then(() => 'measured')),
    janitor: () => ended(janitor.handler({}, context).then(() => 'pruned')),
    migrate: () => {
      // Read at each start: the handler's own.
      for (const [name, value] of Object.entries({ DATABASE_USER: 'sealed_migrator', DATABASE_LOGINS: '[]' }))
        vi.stubEnv(name, value);
      return ended(migrate.handler().then(() => 'installed'));
    },
    operator: async () => {
      const request = { command: 'parked list', arguments: {}, by: 'arn:aws:iam::111122223333:user/ada' };
      const answer = await operator.handler(request, context);
      return answer.ok ? 'done' : answer.code;
    },
    consumer: async () => {
      counted += 1;
      const record = fifoRecord(`c${counted}`, counterEnvelope({ counter: `c${counted}`, sequence: 1 }));
      return (await invoke(handler, [record], contextFor(60_000))).length === 0 ? 'applied' : 'returned';
    },
    // Needs no keys: what is tried is the transaction.
    api: async () => String((await api.post(`/invoices/${invoice}/payments`, { amountMinor: 1 })).status),
  };
  for (const [name, run] of Object.entries(runs)) functions[name as keyof typeof runs].run = run;
});
proxy.onSilent = () => setImmediate(() => vi.advanceTimersByTime(15_000));
beforeEach(() => void vi.spyOn(process.stdout, 'write').mockReturnValue(true));
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  proxy.fault = 'pass';
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await Promise.allSettled(pools.map((it) => it.end()));
});

interface Fault {
  readonly what: string;
  /** Of connections that are made from now on. */
  readonly connections: ConnectionFault | 'no such name';
  /** How a run ends that meets it; where it says nothing of the relay, it sends by itself when the fault is over. */
  readonly ends: Readonly<Record<Name, string>>;
}

/** Those that answer whoever has called them, instead of failing. */
const ANSWERED = { operator: 'DATABASE_UNREACHABLE', consumer: 'returned', api: '503' };
const failing = (code: string, relayCode = code) => ({
  ...ANSWERED,
  monitor: code,
  janitor: code,
  migrate: code,
  relay: `sent after ${relayCode}`,
});
const BROKEN = 'Connection terminated unexpectedly';

const FAULTS: readonly Fault[] = [
  { what: 'has too many connections', connections: { refused: '53300' }, ends: failing('53300') },
  {
    what: 'does not answer',
    connections: 'silent',
    ends: { ...failing('timeout expired', 'Error'), migrate: 'Connection terminated due to connection timeout' },
  },
  { what: 'is starting', connections: { refused: '57P03' }, ends: failing('57P03') },
  { what: 'breaks the connection', connections: 'broken', ends: failing(BROKEN, 'Error') },
  { what: 'refuses the token', connections: { refused: '28000' }, ends: failing('28000') },
  { what: 'has a name that does not resolve', connections: 'no such name', ends: failing('ENOTFOUND') },
];

function arrange(connections: Fault['connections']): () => void {
  proxy.cut();
  if (connections !== 'no such name') {
    proxy.fault = connections;
    return () => (proxy.fault = 'pass');
  }
  const lookup = vi.spyOn(dns, 'lookup');
  lookup.mockImplementation((...given: unknown[]) => {
    (given.at(-1) as (error: Error) => void)(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }));
  });
  return () => lookup.mockRestore();
}

const noLift = (): void => {};

describe.each(NAMES)('%s, when the database', (name) => {
  const run: Run = (lift) => functions[name].run(lift);

  it.each(FAULTS)('$what', async ({ connections, ends }) => {
    const lift = arrange(connections);
    // Nobody answers, and the time that whoever asks gives it is over at once.
    if (connections === 'silent') vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldAdvanceTime: true });
    expect(await run(lift)).toBe(ends[name]);
    lift();
    vi.useRealTimers();
    expect(await run(noLift)).toBe(functions[name].works);
  });
});

/** From now on, until it is called: the server's new connections of a user write nothing. */
async function readOnly(user: TestUser): Promise<() => Promise<void>> {
  const superuser = await database.superuser();
  const set = (what: string) => superuser.query(`alter role ${user} in database ${database.name} ${what}`);
  await set('set default_transaction_read_only = on');
  return async () => void (await set('reset default_transaction_read_only'));
}

/** What each does while the server takes no writes. */
const READ_ONLY: Readonly<Record<Exclude<Name, 'relay'>, string>> = {
  // It only reads, and says what it sees.
  monitor: 'measured',
  janitor: 'JANITOR_FAILED',
  migrate: '25006',
  operator: 'OPERATION_FAILED',
  consumer: 'returned',
  api: '503',
};

/** As long as Aurora may need. By the relay's clock; the others have no run that waits, so each of their runs meets the fault anew. */
const FAILOVER_MS = 30_000;

describe.each(NAMES)(
  '%s, in a fail-over: all connections are cut, and then the server takes no writes for 30 s',
  (name) => {
    const { user } = functions[name];
    const run: Run = (lift, lastsMs) => functions[name].run(lift, lastsMs);

    it('fails as long as that lasts, and works right afterwards, in the same process', async () => {
      expect(await run(noLift)).toBe(functions[name].works);
      const over = await readOnly(user);
      proxy.cut();
      if (name === 'relay') {
        let lifted: Promise<void> | undefined;
        const lift = (): void => {
          lifted = over();
        };
        expect(await run(lift, FAILOVER_MS)).toBe('sent after 25006');
        await lifted;
      } else {
        for (const _ of [1, 2, 3]) expect(await run(noLift)).toBe(READ_ONLY[name]);
        await over();
      }
      expect(await run(noLift)).toBe(functions[name].works);
    });

    it('goes on with the connection that it has when its token is no longer taken', async () => {
      if (name !== 'consumer' && name !== 'api') {
        // One connection a run: the token is shown when the run begins, and never again.
        const before = proxy.passed;
        expect(await run(noLift)).toBe(functions[name].works);
        expect(proxy.passed - before).toBe(1);
        return;
      }
      expect(await run(noLift)).toBe(functions[name].works);
      proxy.fault = { refused: '28000' };
      expect(await run(noLift)).toBe(functions[name].works);
    });
  },
);
