/**
 * Other ways to get events from PostgreSQL to a queue in order, each as its documentation has it for that, in a process of its own like our
 * relay. All send through one minimal sender, which fills calls of ten from what their handlers have in hand at the same time.
 */
import { SendMessageBatchCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { Logger, parseCronItems, run as runGraphileWorker } from 'graphile-worker';
import pg from 'pg';
import { PgBoss } from 'pg-boss';
import { getDisabledLogger, initializePollingMessageListener } from 'pg-transactional-outbox';
import { BOSS_QUEUE, type PeerMessage, type PeerStart, TRX_OUTBOX } from './harness/peers.ts';
import { answerQuestions } from './harness/process.ts';
import { sqsClient } from './harness/queue.ts';

type Send = (message: PeerMessage) => Promise<void>;

/** Resolves for each message when the call that carried it was answered. A call leaves when it is full, or after 2 ms. */
function sender(client: SQSClient, queueUrl: string): Send {
  let waiting: { message: PeerMessage; settle: (sent: Promise<unknown>) => void }[] = [];
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    const batch = waiting;
    waiting = [];
    const Entries = batch.map(({ message }, n) => ({
      Id: String(n),
      MessageBody: JSON.stringify({ id: message.id, sequence: message.sequence, data: message.data }),
      MessageGroupId: message.group,
      MessageDeduplicationId: message.id,
    }));
    const sent = client.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
    for (const { settle } of batch) settle(sent);
  };
  return async (message) => {
    await new Promise((settle) => {
      waiting.push({ message, settle });
      if (waiting.length === 10) flush();
      else timer ??= setTimeout(flush, 2);
    });
  };
}

/** Jobs at once: what 32 calls of ten carry. */
const AT_ONCE = 320;
const CONNECTIONS = 20;

const peers: Record<PeerStart['peer'], (start: PeerStart, send: Send) => Promise<unknown>> = {
  /** A named queue per aggregate runs one job at a time, in order. */
  async 'graphile-worker'({ connection }, send) {
    const pgPool = new pg.Pool({ ...connection, max: CONNECTIONS });
    for (const event of ['error', 'connect'] as const) pgPool.on(event, () => {});
    return runGraphileWorker({
      pgPool,
      concurrency: AT_ONCE,
      pollInterval: 100,
      noHandleSignals: true,
      parsedCronItems: parseCronItems([]),
      // A line per job would cost it more than the job.
      logger: new Logger(() => () => {}),
      // Both as its documentation recommends for many jobs: fetched and completed in batches.
      preset: { worker: { localQueue: { size: AT_ONCE + 1 }, completeJobBatchDelay: 5 } },
      taskList: { send: (payload) => send(payload as PeerMessage) },
    });
  },

  /** Policy key_strict_fifo: one job of a key at a time, in order; a batch is settled as a whole. */
  async 'pg-boss'({ connection }, send) {
    const boss = new PgBoss({ ...connection, max: CONNECTIONS, supervise: false, schedule: false });
    boss.on('error', (error) => console.error('pg-boss:', error.message));
    await boss.start();
    const next = async (): Promise<void> => {
      for (;;) {
        const jobs = await boss.fetch<PeerMessage>(BOSS_QUEUE, { batchSize: AT_ONCE / 4 });
        if (jobs.length === 0) await new Promise((resolve) => setTimeout(resolve, 50));
        else {
          await Promise.all(jobs.map((job) => send(job.data)));
          await boss.complete(
            BOSS_QUEUE,
            jobs.map((job) => job.id),
          );
        }
      }
    };
    void Promise.all([next(), next(), next(), next()]);
    return boss;
  },

  /** A segment per aggregate: only its oldest message is handed out, and the next one when that is done. */
  async 'pg-transactional-outbox'({ connection }, send) {
    return initializePollingMessageListener(
      {
        outboxOrInbox: 'outbox',
        dbListenerConfig: { ...connection, max: CONNECTIONS } as pg.ClientConfig,
        settings: {
          dbSchema: TRX_OUTBOX.schema,
          dbTable: TRX_OUTBOX.table,
          nextMessagesFunctionSchema: TRX_OUTBOX.schema,
          nextMessagesFunctionName: TRX_OUTBOX.nextMessagesName,
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

answerQuestions({
  async start(start: PeerStart): Promise<void> {
    await peers[start.peer](start, sender(sqsClient(start.queue), start.queue.queueUrl));
  },
});
