import { randomUUID } from 'node:crypto';
import { format } from 'node:util';
import { v7 } from 'uuid';
import { expect, vi } from 'vitest';
import type { HttpEvent } from '../../functions/sample/api/request.ts';
import { ACCESS_LOG } from '../../infra/constructs/access-log.ts';
import { emfMetrics, inSpan, type Log } from '../../shared/telemetry/index.ts';
import { sampleApi } from '../integration/sample/api-harness.ts';
import { textOf } from './leaks.ts';
import { recordingPublisher } from './outbox.ts';
import { invoiceOrder, PERSONAL } from './sample.ts';
import type { SecondCluster } from './second-cluster.ts';
import type { RecordedSpan } from './spans.ts';

export const CLERK = 'arn:aws:iam::111122223333:user/clerk';

/** As much as PostgreSQL can write down: every statement, its parameters, also of those that fail. */
export const TALKATIVE = {
  log_statement: 'all',
  log_min_duration_statement: 0,
  log_min_messages: 'debug1',
  log_min_error_statement: 'debug1',
  log_parameter_max_length: -1,
  log_parameter_max_length_on_error: -1,
  log_error_verbosity: 'verbose',
  log_connections: 'on',
  log_lock_waits: 'on',
};

/** What everything below writes into. */
export const newSinks = () => ({
  'database log': [] as string[],
  'logs at level debug': [] as string[],
  'standard output': [] as string[],
  metrics: [] as string[],
  traces: [] as string[],
  'stack traces': [] as string[],
  'queues and dead letters': [] as string[],
  archive: [] as string[],
  'API answers': [] as string[],
  'access log': [] as string[],
  "operators' answers": [] as string[],
  'log of erasures': [] as string[],
  tables: [] as string[],
});
export type Sinks = ReturnType<typeof newSinks>;

export const logInto = (sinks: Sinks): Log => {
  const write = (message: string, fields?: unknown): void =>
    void sinks['logs at level debug'].push(`${message} ${textOf(fields)}`);
  return { debug: write, info: write, warn: write, error: write };
};

/** What anything writes past the log that it was given: Lambda puts that into the function's log, too. */
export function listenToOutput(sinks: Sinks): void {
  const noted = (...parts: unknown[]): true => {
    sinks['standard output'].push(format(...parts));
    return true;
  };
  for (const stream of [process.stdout, process.stderr]) vi.spyOn(stream, 'write').mockImplementation(noted);
  for (const method of ['debug', 'log', 'info', 'warn', 'error'] as const) {
    vi.spyOn(console, method).mockImplementation((...parts) => void noted(...parts));
  }
  console.log('from now on all that is written to the standard output is kept');
}

export const metricsInto = (sinks: Sinks) =>
  emfMetrics({ dimensions: { Installation: 'canary' }, write: (line) => void sinks.metrics.push(line), now: Date.now });

/** A line of the gateway, with whatever its format asks for. */
export function logAccess(
  sinks: Sinks,
  { routeKey, rawPath, headers }: HttpEvent,
  status: number,
  format: object = ACCESS_LOG,
): void {
  const known: Readonly<Record<string, unknown>> = { routeKey, path: rawPath, status, requestHeaders: headers };
  const line = JSON.stringify(format).replaceAll(/\$context\.(\w+)/g, (_, name: string) =>
    JSON.stringify(known[name] ?? '-'),
  );
  sinks['access log'].push(line);
}

export async function dumpTables(cluster: SecondCluster, sinks: Sinks): Promise<void> {
  const superuser = await cluster.connect('postgres' as never);
  const { rows } = await superuser.query(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
      where table_schema in ('sample', 'outbox', 'inbox', 'vault') and table_type = 'BASE TABLE'`,
  );
  for (const { name } of rows) {
    const all = await superuser.query(`select coalesce(string_agg(t::text, ' '), '') as text from ${name} t`);
    sinks.tables.push(all.rows[0].text);
  }
  await superuser.end();
}

/** PostgreSQL writes its log when it likes. */
export async function untilLogged(cluster: SecondCluster, sinks: Sinks): Promise<void> {
  const end = randomUUID();
  await cluster.pool('sealed_migrator').query('select $1::text', [end]);
  await expect.poll(() => sinks['database log'].join('\n').includes(end), { timeout: 10_000 }).toBe(true);
}

/** One leak of each sink, on the way on which the sink gets its text. */
export function leaks(
  cluster: SecondCluster,
  sinks: Sinks,
  spans: readonly RecordedSpan[],
): Readonly<Record<keyof Sinks, () => Promise<unknown> | void>> {
  const owner = cluster.pool('sealed_migrator');
  const leaky = logInto(sinks);
  return {
    'database log': async () => {
      await owner.query(`select convert_from($1::bytea, 'UTF8')`, [Buffer.from(PERSONAL.note)]);
      await untilLogged(cluster, sinks);
    },
    'logs at level debug': () =>
      leaky.debug('leaks', { error: new Error('outer', { cause: { detail: PERSONAL.name } }) }),
    'standard output': () => console.log(`a leftover of debugging: %o`, { order: PERSONAL }),
    metrics: () => metricsInto(sinks).add('Leaks', 'Count', 1, { Customer: PERSONAL.email }),
    traces: async () => {
      await inSpan(
        'leaks',
        { kind: 'server', attributes: { 'url.path': `/${encodeURIComponent(PERSONAL.address)}` } },
        async () => {},
      );
      sinks.traces.push(textOf(spans));
    },
    'stack traces': () => void sinks['stack traces'].push(textOf(new TypeError(PERSONAL.iban))),
    'queues and dead letters': async () => {
      const queue = recordingPublisher();
      await queue.publish([{ body: Buffer.from(`1${PERSONAL.description}`).toString('base64') } as never]);
      sinks['queues and dead letters'].push(textOf(queue.calls));
    },
    archive: () => void sinks.archive.push(JSON.stringify({ data: { note: PERSONAL.note } })),
    'API answers': async () => {
      const api = sampleApi(cluster.pool('sealed_api'), { callers: { seeClearValues: [CLERK] } });
      const order = { ...invoiceOrder(v7()) };
      const { body } = await api.post('/invoices', order);
      sinks['API answers'].push(textOf(await api.call('GET', `/invoices/${String(body['id'])}`, { signedBy: CLERK })));
    },
    'access log': () => {
      const rawPath = `/customers/${encodeURIComponent(PERSONAL.email)}`;
      const event = {
        routeKey: '$default',
        rawPath,
        headers: {},
        isBase64Encoded: false,
        requestContext: { http: { method: 'GET' } },
      };
      logAccess(sinks, event, 404, { ...ACCESS_LOG, path: '$context.path' });
    },
    "operators' answers": () =>
      void sinks["operators' answers"].push(textOf({ result: { parked: [{ data: PERSONAL }] } })),
    'log of erasures': () => void sinks['log of erasures'].push(Buffer.from(PERSONAL.email).toString('hex')),
    tables: async () => {
      await owner.query("create table sample.leak as select convert_to($1, 'UTF8') as bytes", [PERSONAL.taxId]);
      await dumpTables(cluster, sinks);
    },
  };
}
