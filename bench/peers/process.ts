/**
 * Other ways to get events from PostgreSQL to a queue in order, each as its documentation has it for that, in a process of its own like our
 * relay. All send through one minimal sender, which fills calls of ten from what their handlers have in hand at the same time.
 */
import { SendMessageBatchCommand, type SQSClient } from '@aws-sdk/client-sqs';
import pg from 'pg';
import { answerQuestions } from '../harness/process.ts';
import { sqsClient } from '../harness/queue.ts';
import { graphileWorker } from './graphile-worker.ts';
import type { Peer, PeerMessage, PeerStart, Send } from './peer.ts';
import { pgBoss } from './pg-boss.ts';
import { pgTransactionalOutbox } from './pg-transactional-outbox.ts';

const peers: Readonly<Record<PeerStart['peer'], Peer>> = {
  'graphile-worker': graphileWorker,
  'pg-boss': pgBoss,
  'pg-transactional-outbox': pgTransactionalOutbox,
};

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

answerQuestions({
  async prepare(start: PeerStart): Promise<void> {
    const admin = new pg.Client(start.connection);
    await admin.connect();
    try {
      await peers[start.peer].prepare(start, admin);
      await admin.query('vacuum analyze');
    } finally {
      await admin.end();
    }
  },
  async start(start: PeerStart): Promise<void> {
    await peers[start.peer].start(start, sender(sqsClient(start.queue), start.queue.queueUrl));
  },
});
