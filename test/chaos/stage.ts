import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import { bundle } from '../../infra/constructs/bundle.ts';
import { createDatabase, MIGRATOR, startPostgres } from '../../local/postgres.ts';
import { ensureLogins, migrate, readMigrations } from '../../shared/database/index.ts';
import { catalogueRows } from '../../shared/events/index.ts';
import { LOGINS, type TestUser } from '../support/logins.ts';
import { catalogue, CONSUMERS, ORDERED } from './catalogue.ts';
import type { ConsumerKind } from './consumers.ts';
import { sturdyPool } from './prepared-pool.ts';
import { READ_MODELS } from './read-models.ts';
import type { RelayKind, RelayProcessOptions } from './relay-process.ts';

const DATABASE = 'chaos';

/** What a run plays on: a database and a queue of its own. */
export interface Stage {
  config(user: TestUser | 'postgres'): RelayProcessOptions['database'];
  pool(user: TestUser, max: number): pg.Pool;
  connect(user: TestUser | 'postgres'): Promise<pg.Client>;
  crashPostgres(): Promise<void>;
  /** Each in one file: a relay that is killed all the time must start fast, and from sources it takes 0.4 s more. */
  readonly programs: { readonly relay: string; readonly consumer: string };
  /** Destination → queue, and its dead-letter queue. */
  readonly queue: {
    readonly port: number;
    readonly urls: Readonly<Record<string, string>>;
    readonly dead: Readonly<Record<string, string>>;
  };
  /** Ends both. */
  strike(): Promise<void>;
}

/** What is confirmed must survive a crash of the server, so here it writes to disk as it would in earnest. */
const DURABLE = {
  fsync: 'on',
  full_page_writes: 'on',
  wal_level: 'replica',
  checkpoint_timeout: '30s',
  max_wal_size: '2GB',
  shared_buffers: '512MB',
  // Handlers of two batches meet the same rows crosswise.
  deadlock_timeout: '100ms',
};

export async function setStage(relay: RelayKind, consumer: ConsumerKind): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-chaos-'));
  const server = await startPostgres({ settings: DURABLE });
  const pools: pg.Pool[] = [];
  const config: Stage['config'] = (user) => ({
    host: '127.0.0.1',
    port: server.port,
    database: DATABASE,
    user,
    password: server.password,
  });
  const connect = async (user: TestUser | 'postgres'): Promise<pg.Client> => {
    const client = new pg.Client(config(user));
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  try {
    bundle('test/chaos/relay-process.ts', join(directory, 'relay'));
    bundle('test/chaos/consumer-process.ts', join(directory, 'consumer'));
    await createDatabase(server, DATABASE);
    const migrator = await connect(MIGRATOR);
    await migrate(migrator, await readMigrations('migrations', ['outbox', 'inbox', 'vault', 'sample']));
    await ensureLogins(migrator, LOGINS, { auth: 'password', password: server.password });
    await migrator.query('select outbox.install_catalogue($1)', [JSON.stringify(catalogueRows(catalogue))]);
    await migrator.query(READ_MODELS);
    if (relay === 'cursor') await removeLookUp(migrator);
    if (consumer === 'no-dedupe') await removeDedupe(migrator);
    await migrator.end();
    const queue = await startQueue();
    return {
      config,
      connect,
      pool(user, max) {
        const pool = sturdyPool({ ...config(user), max });
        pools.push(pool);
        return pool;
      },
      crashPostgres: () => server.crash(),
      programs: { relay: join(directory, 'relay/index.mjs'), consumer: join(directory, 'consumer/index.mjs') },
      queue,
      async strike() {
        queue.end();
        await Promise.allSettled(pools.map((pool) => pool.end()));
        await server.stop();
        rmSync(directory, { recursive: true, force: true });
      },
    };
  } catch (error) {
    await server.stop();
    rmSync(directory, { recursive: true, force: true });
    throw error;
  }
}

/**
 * Ours without the look-up: what the walk meets, or a retry that is due, is taken for all that its aggregate has. The change is made to the real
 * function, so that all else is as in earnest.
 */
async function removeLookUp(migrator: pg.Client): Promise<void> {
  // The one that relays call; that of the version before has no `floors`.
  const { rows } = await migrator.query(
    `select pg_get_functiondef(oid) as find from pg_proc where pronamespace = 'outbox'::regnamespace and proname = 'find' and 'floors' = any (proargnames)`,
  );
  const parts = String(rows[0].find).split('  if ordered then\n');
  if (parts.length !== 2) throw new Error('outbox.find has changed: tell where its look-up begins');
  const blind = parts.join(`
    met_position := met_position || coalesce((
      select array_agg(d.position) from outbox.delivery d
       where d.destination = find.destination and d.aggregate_key = any (wake) and d.state = 'pending' and d.replay = 0), '{}');
    if false then\n`);
  await migrator.query(`begin; set local role outbox_owner; ${blind}; commit`);
}

/** The consumer's own statements stay as they are; what it writes against repeats does not stay. */
async function removeDedupe(migrator: pg.Client): Promise<void> {
  await migrator.query(`
    begin;
    set local role inbox_owner;
    create function inbox.forget_it() returns trigger language plpgsql security definer as $$
    begin
      delete from inbox.processed_event p where p.consumer = new.consumer and p.event_id = new.event_id;
      return null;
    end
    $$;
    create trigger forget_it after insert on inbox.processed_event for each row execute function inbox.forget_it();
    grant execute on function inbox.forget_it() to inbox_consumer;
    commit`);
}

async function startQueue(): Promise<Stage['queue'] & { end(): void }> {
  const names = CONSUMERS.map((name) => (ORDERED.has(name) ? `${name}.fifo` : name));
  const child = spawn(process.execPath, [`${import.meta.dirname}/queue-process.ts`, ...names], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdin.on('error', () => {});
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve);
    child.once('close', () => reject(new Error('the queue did not start')));
  });
  return {
    ...(JSON.parse(line) as Stage['queue']),
    end: () => void child.kill('SIGKILL'),
  };
}
