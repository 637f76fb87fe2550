import type pg from 'pg';
import { DatabaseSetup, getDisabledLogger, initializePollingMessageListener } from 'pg-transactional-outbox';
import { AT_ONCE, CONNECTIONS, messages, type Peer, type PeerMessage } from './peer.ts';

const OUTBOX = {
  outboxOrInbox: 'outbox',
  schema: 'trx',
  table: 'outbox',
  listenerRole: 'postgres',
  nextMessagesName: 'next_outbox_messages',
} as const;

/** A segment: only its oldest message is handed out, and the next one when that is done. */
export const pgTransactionalOutbox: Peer = {
  async prepare(start, admin) {
    const setup = { ...OUTBOX, database: start.connection.database };
    await admin.query(DatabaseSetup.dropAndCreateTable(setup));
    await admin.query(DatabaseSetup.createPollingFunction(setup));
    await admin.query(DatabaseSetup.setupPollingIndexes(setup));
    await admin.query(
      `insert into ${OUTBOX.schema}.${OUTBOX.table} (id, aggregate_type, aggregate_id, message_type, segment, payload, created_at)
       select m.id, 'thing', m.group_id, 'thing.happened', m.key, m.payload,
              now() - interval '1 hour' + m.n * interval '1 microsecond' from (${messages(start)}) m`,
    );
  },

  async start({ connection }, send) {
    initializePollingMessageListener(
      {
        outboxOrInbox: 'outbox',
        dbListenerConfig: { ...connection, max: CONNECTIONS } as pg.ClientConfig,
        settings: {
          dbSchema: OUTBOX.schema,
          dbTable: OUTBOX.table,
          nextMessagesFunctionSchema: OUTBOX.schema,
          nextMessagesFunctionName: OUTBOX.nextMessagesName,
          nextMessagesBatchSize: AT_ONCE,
          nextMessagesPollingIntervalInMs: 10,
          nextMessagesLockInMs: 60_000,
          messageProcessingTimeoutInMs: 60_000,
          // Its protections cost further statements; an outbox may do without them, its documentation says.
          enableMaxAttemptsProtection: false,
          enablePoisonousMessageProtection: false,
        },
      },
      { handle: ({ payload }) => send(payload as PeerMessage) },
      { ...getDisabledLogger(), error: (error: unknown) => console.error('pg-transactional-outbox:', error) },
      { batchSizeStrategy: async () => AT_ONCE },
    );
  },
};
