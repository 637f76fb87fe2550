import { runMigrations } from 'graphile-worker';
import pg from 'pg';
import { PgBoss } from 'pg-boss';
import { DatabaseSetup } from 'pg-transactional-outbox';
import type { QueueAddress } from './queue.ts';
import type { BenchDatabase, Connection } from './server.ts';

export const PEERS = ['graphile-worker', 'pg-boss', 'pg-transactional-outbox'] as const;

export interface PeerStart {
  readonly peer: (typeof PEERS)[number];
  readonly connection: Connection;
  readonly queue: QueueAddress;
}

/** What a peer's job carries. */
export interface PeerMessage {
  readonly id: string;
  readonly group: string;
  /** A decimal in text, as our envelope has it, so that the queue sees the order. */
  readonly sequence: string;
  readonly data: unknown;
}

export const BOSS_QUEUE = 'send';
export const TRX_OUTBOX = {
  outboxOrInbox: 'outbox',
  schema: 'trx',
  table: 'outbox',
  listenerRole: 'postgres',
  nextMessagesName: 'next_outbox_messages',
} as const;

/** One `PeerMessage` per event as `payload`, with its id and group, oldest first. */
const messages = (events: number, aggregates: number, bytes: number): string => `
  select m.id, m.group_id, m.n, jsonb_build_object(
           'id', m.id, 'group', m.group_id, 'sequence', (m.n / ${aggregates} + 1)::text,
           'data', jsonb_build_object('text', repeat('x', ${bytes}))) as payload
    from (select n, gen_random_uuid() as id, 'thing-' || lpad((n % ${aggregates})::text, 6, '0') as group_id
            from generate_series(0, ${events - 1}) n) m
   order by m.n`;

/** Installs a peer's own schema, and as many events as its users would have written. */
export async function preparePeer(
  database: BenchDatabase,
  peer: PeerStart['peer'],
  sizes: { readonly events: number; readonly aggregates: number; readonly bytes: number },
): Promise<void> {
  const connection = database.connection('postgres');
  const admin = await database.connect('postgres');
  const source = messages(sizes.events, sizes.aggregates, sizes.bytes);
  switch (peer) {
    case 'graphile-worker': {
      const pool = new pg.Pool(connection);
      await runMigrations({ pgPool: pool });
      await pool.end();
      await admin.query(
        `select graphile_worker.add_job('send', m.payload::json, queue_name := m.group_id,
                 run_at := now() - interval '1 hour' + m.n * interval '1 microsecond') from (${source}) m`,
      );
      break;
    }
    case 'pg-boss': {
      const boss = new PgBoss({ ...connection, supervise: false, schedule: false });
      await boss.start();
      await boss.createQueue(BOSS_QUEUE, { policy: 'key_strict_fifo' });
      const { rows } = await admin.query(source);
      for (let n = 0; n < rows.length; n += 1000) {
        const jobs = rows.slice(n, n + 1000).map((row) => ({ data: row.payload, singletonKey: row.group_id }));
        await boss.insert(BOSS_QUEUE, jobs);
      }
      await boss.stop();
      break;
    }
    case 'pg-transactional-outbox':
      for (const sql of [
        DatabaseSetup.dropAndCreateTable(setup(database)),
        DatabaseSetup.createPollingFunction(setup(database)),
        DatabaseSetup.setupPollingIndexes(setup(database)),
      ]) {
        await admin.query(sql);
      }
      await admin.query(
        `insert into ${TRX_OUTBOX.schema}.${TRX_OUTBOX.table} (id, aggregate_type, aggregate_id, message_type, segment, payload)
         select m.id, 'thing', m.group_id, 'thing.happened', m.group_id, m.payload from (${source}) m`,
      );
      break;
  }
  await admin.query('vacuum analyze');
}

function setup(database: BenchDatabase): typeof TRX_OUTBOX & { readonly database: string } {
  return { ...TRX_OUTBOX, database: database.name };
}
