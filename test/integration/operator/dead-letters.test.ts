import { GetQueueAttributesCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import { startFauxqs } from 'fauxqs';
import { afterAll, describe, expect, it } from 'vitest';
import { sqsClient } from '../../support/aws-clients.ts';
import { testDatabase } from '../../support/database.ts';
import { testOperator } from '../../support/operator.ts';

const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
const sqs = sqsClient({
  endpoint: `http://127.0.0.1:${server.port}`,
  region: 'us-east-1',
  credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
});
afterAll(async () => {
  sqs.destroy();
  await server.stop();
});

/** A queue with three dead letters, and another queue whose dead letters they are not. */
async function queues() {
  const { queueUrl: deadLetters } = server.createQueue('dead.fifo', { attributes: { FifoQueue: 'true' } });
  const RedrivePolicy = JSON.stringify({
    deadLetterTargetArn: 'arn:aws:sqs:us-east-1:000000000000:dead.fifo',
    maxReceiveCount: 1,
  });
  const { queueUrl: queue } = server.createQueue('live.fifo', { attributes: { FifoQueue: 'true', RedrivePolicy } });
  const { queueUrl: other } = server.createQueue('other.fifo', { attributes: { FifoQueue: 'true' } });
  for (const body of ['1', '2', '3']) {
    const message = { MessageBody: body, MessageGroupId: body, MessageDeduplicationId: body };
    await sqs.send(new SendMessageCommand({ QueueUrl: deadLetters, ...message }));
  }
  return { ledger: { queue, deadLetters }, other: { queue: other, deadLetters } };
}

const database = await testDatabase();
const pairs = await queues();
const operator = await testOperator(database, { sqs, queues: pairs });

async function messagesIn(QueueUrl: string): Promise<number> {
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }));
  return Number(Attributes?.['ApproximateNumberOfMessages']);
}

describe('dead letters', () => {
  it('are refused where there is no such queue, or where they belong to another one', async () => {
    expect(await operator.call('dead-letters redrive', { queue: 'nowhere' }, 'r')).toMatchObject({
      outcome: 'refused',
      code: 'QUEUE_UNKNOWN',
      message: expect.stringContaining('it knows ledger, other'),
    });
    expect(await operator.call('dead-letters redrive', { queue: 'constructor' }, 'r')).toMatchObject({
      code: 'QUEUE_UNKNOWN',
    });
    expect(await operator.call('dead-letters redrive', { queue: 'other' }, 'r')).toMatchObject({
      outcome: 'refused',
      code: 'REDRIVE_QUEUES',
    });
  });

  it('are counted, and sent to their queue again', async () => {
    expect(await operator.done('dead-letters list')).toEqual({
      queues: [
        { queue: 'ledger', deadLetters: 3, inQueue: 0 },
        { queue: 'other', deadLetters: 3, inQueue: 0 },
      ],
    });
    expect(await operator.done('dead-letters redrive', { queue: 'ledger', perSecond: 3000 }, 'mended')).toEqual({
      waiting: 3,
      moved: 3,
      left: 0,
      ended: 'empty',
      more: false,
    });
    expect(await messagesIn(pairs.ledger.queue)).toBe(3);
    expect(await messagesIn(pairs.ledger.deadLetters)).toBe(0);
  });

  it('that are more than fit into one invocation: it says that there is more', async () => {
    const hurried = await testOperator(database, { sqs, queues: pairs, budgetMs: 0 });
    const { more, moved } = await hurried.done('dead-letters redrive', { queue: 'ledger' }, 'r');
    // A signal that is over before the first receive stops before it.
    expect({ more, moved }).toEqual({ more: true, moved: 0 });
  });

  it('of a queue that does not answer: it failed, and says so with the code of the failure', async () => {
    const away = await testOperator(database, { queues: pairs });
    expect(await away.call('dead-letters redrive', { queue: 'ledger' }, 'r')).toMatchObject({
      ok: false,
      outcome: 'failed',
      code: 'ECONNREFUSED',
    });
  });
});
