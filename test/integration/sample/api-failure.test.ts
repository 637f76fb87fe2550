import net from 'node:net';
import type pg from 'pg';
import { v7 } from 'uuid';
import { afterAll, describe, expect, it } from 'vitest';
import { createPool } from '../../../shared/database/index.ts';
import { silentLog } from '../../../shared/telemetry/index.ts';
import { testDatabase } from '../../support/database.ts';
import { installSample, invoiceOrder, sampleKeyring, sampleKeys } from '../../support/sample.ts';
import { documented, sampleApi } from './api-harness.ts';

const database = await testDatabase();
const owner = await database.client('sealed_migrator');
await installSample(owner);

const order = {
  ...invoiceOrder('3f0f6a52-8f0c-4a77-9e35-2f4cf7b7a001'),
  lines: [{ description: 'canary-8812', quantity: 1, unitPriceMinor: 100 }],
};

/** A way to the database that can be cut without a word to either side, as a firewall does to a frozen sandbox. */
async function silentProxy() {
  const sockets = new Set<net.Socket>();
  const { port } = database.config('sealed_api');
  const server = net.createServer((socket) => {
    const upstream = net.connect(port, '127.0.0.1');
    socket.pipe(upstream).pipe(socket);
    for (const end of [socket, upstream]) {
      sockets.add(end);
      end.on('error', () => {});
    }
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  afterAll(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    port: (server.address() as net.AddressInfo).port,
    /** From now on what is connected hears nothing; new connections pass. */
    cut() {
      for (const socket of sockets) {
        socket.unpipe();
        socket.resume();
      }
      sockets.clear();
    },
  };
}

function poolAt(port: number): pg.Pool {
  const pool = createPool(
    { ...database.config('sealed_api'), port },
    { max: 1, applicationName: 'sample-api', statementTimeoutMs: 10_000, log: silentLog },
  );
  afterAll(() => pool.end());
  return pool;
}

/** A pool whose every connection fails with this error. */
function failingPool(failure: Error): pg.Pool {
  const pool = poolAt(1);
  const fail = async () => {
    throw failure;
  };
  return Object.assign(pool, { connect: fail, query: fail });
}

const everyOperation = [
  ['POST', '/invoices', order],
  ['GET', `/invoices/${v7()}`, undefined],
  ['POST', `/invoices/${v7()}/payments`, { amountMinor: 1 }],
  ['POST', '/invoices/search', { email: 'canary-8812@lovelace.example' }],
  ['DELETE', `/customers/${v7()}`, undefined],
] as const;

describe('when the database is away', () => {
  it('answers 503 with Retry-After, and the document says so', async () => {
    // Nothing listens on port 1.
    const api = sampleApi(poolAt(1));
    for (const [method, path, body] of everyOperation) {
      const reply = body === undefined ? await api.call(method, path) : await api.post(path, body);
      expect(reply).toMatchObject({ status: 503, headers: { 'retry-after': '5' } });
      expect(JSON.stringify(reply)).not.toMatch(/127\.0\.0\.1|ECONN/);
    }
    expect([...api.seen].toSorted()).toEqual([...documented.keys()].filter((name) => name.endsWith(' 503')).toSorted());
    expect((await api.call('GET', '/openapi.json')).status).toBe(200);
  });

  it('case 24: goes on after its idle connection was cut', async () => {
    const pool = poolAt(database.config('sealed_api').port);
    const api = sampleApi(pool);
    expect((await api.post('/invoices', order)).status).toBe(201);
    const { rows } = await pool.query('select pg_backend_pid() as pid');
    const own = await database.client('sealed_api');
    await own.query('select pg_terminate_backend($1)', [rows[0].pid]);
    expect((await api.post('/invoices', order)).status).toBe(201);
  });

  it('like case 24: goes on after its idle connection went silent', async () => {
    const proxy = await silentProxy();
    const api = sampleApi(poolAt(proxy.port));
    expect((await api.post('/invoices', order)).status).toBe(201);
    proxy.cut();
    expect((await api.post('/invoices', order)).status).toBe(201);
  });
});

describe('when something breaks', () => {
  it('answers 500 without internals, logs the place and no values, and the document says so', async () => {
    const error = Object.assign(new Error('duplicate key canary-8812'), {
      code: '23505',
      detail: 'Key (id)=(canary-8812) already exists.',
      constraint: 'invoice_pkey',
    });
    // The vault may be in another database, and that one works.
    const vault = database.pool('sealed_api', 1);
    const { indexKeys } = sampleKeys(vault);
    const api = sampleApi(failingPool(error), { keyring: sampleKeyring(vault), indexKeys });
    for (const [method, path, body] of everyOperation) {
      const reply = body === undefined ? await api.call(method, path) : await api.post(path, body);
      expect(reply).toMatchObject({ status: 500, body: { type: '/problems/internal' } });
      expect(JSON.stringify(reply)).not.toMatch(/canary|23505|invoice_pkey|duplicate/);
    }
    expect([...api.seen].toSorted()).toEqual([...documented.keys()].filter((name) => name.endsWith(' 500')).toSorted());
    expect(api.log).toHaveLength(everyOperation.length);
    for (const line of api.log) {
      expect(line).toContain('"constraint":"invoice_pkey"');
      expect(line).not.toContain('canary');
    }
  });

  it('undoes the invoice when the event is refused', async () => {
    const pool = database.pool('sealed_api', 1);
    const api = sampleApi(pool);
    await owner.query("delete from outbox.event_type where type = 'invoice.issued'");
    const before = await owner.query('select from sample.invoice');
    expect((await api.post('/invoices', order)).status).toBe(500);
    expect((await owner.query('select from sample.invoice')).rowCount).toBe(before.rowCount);
    expect(api.log.join('')).toContain('EVENT_TYPE_UNKNOWN');
  });
});
