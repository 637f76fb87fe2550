import { GetQueueAttributesCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { SealedOutboxError } from '../../../shared/errors/index.ts';
import type { resendCommands } from '../../../shared/operations/index.ts';
import {
  cancelReplay,
  countReplay,
  listReplays,
  OperationError,
  pauseReplay,
  redriveDeadLetters,
  resumeReplay,
  startReplay,
} from '../../../shared/outbox/index.ts';
import type { Answer, Runners, Tools } from './tools.ts';

export const resendRunners: Runners<keyof typeof resendCommands> = {
  'replay count': async ({ db }, { destination, ...scope }) => ({ ...(await countReplay(db, destination, scope)) }),
  'replay start': async ({ db }, { destination, perSecond, paused, fromArchive, ...scope }, reason) => {
    const when = { paused: paused === true, fromArchive: fromArchive === true };
    const start = { destination, scope, ...when, ...(perSecond !== undefined && { perSecond }) };
    return { number: await startReplay(db, start, reason) };
  },
  'replay return': async (tools, args) => {
    // S3's client is no part of a cold start for all the other commands.
    const { returnFromArchive } = await import('./archive.ts');
    return returnFromArchive(tools, args);
  },
  'replay list': async ({ db }, args) => ({ replays: await listReplays(db, args) }),
  'replay show': async ({ db }, { number }) => {
    const [replay] = await listReplays(db, { number });
    if (replay === undefined) throw new OperationError('DELIVERY_UNKNOWN', `there is no replay ${number}.`);
    return { ...replay };
  },
  'replay pause': async ({ db }, { number }, reason) => {
    await pauseReplay(db, number, reason);
    return { number, state: 'paused' };
  },
  'replay resume': async ({ db }, { number }, reason) => {
    await resumeReplay(db, number, reason);
    return { number, state: 'running' };
  },
  'replay cancel': async ({ db }, { number }, reason) => ({
    number,
    state: 'cancelled',
    removed: await cancelReplay(db, number, reason),
  }),
  'dead-letters list': async ({ sqs, queues }) => ({
    queues: await Promise.all(
      Object.entries(queues).map(async ([queue, { deadLetters, queue: live }]) => {
        const dead = await messagesIn(sqs, deadLetters);
        return { queue, deadLetters: dead, inQueue: await messagesIn(sqs, live) };
      }),
    ),
  }),
  'dead-letters redrive': redriveQueue,
};

async function redriveQueue(
  { sqs, queues, budgetMs }: Tools,
  { queue, perSecond }: { readonly queue: string; readonly perSecond?: number | undefined },
): Promise<Answer> {
  const pair = Object.hasOwn(queues, queue) ? queues[queue] : undefined;
  if (pair === undefined) {
    const known = Object.keys(queues).join(', ') || 'none';
    throw new SealedOutboxError(
      'QUEUE_UNKNOWN',
      `this function knows no queue ${queue}; it knows ${known}. Nothing was sent.`,
    );
  }
  const { waiting, moved, left, ended } = await redriveDeadLetters({
    client: sqs,
    from: pair.deadLetters,
    to: pair.queue,
    ...(perSecond !== undefined && { perSecond }),
    signal: AbortSignal.timeout(budgetMs),
  });
  return { waiting, moved, left, ended, more: ended === 'stopped' };
}

/** Visible ones and those in flight. */
async function messagesIn(sqs: SQSClient, QueueUrl: string): Promise<number> {
  const { Attributes = {} } = await sqs.send(
    new GetQueueAttributesCommand({
      QueueUrl,
      AttributeNames: ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'],
    }),
  );
  return (
    Number(Attributes['ApproximateNumberOfMessages'] ?? 0) +
    Number(Attributes['ApproximateNumberOfMessagesNotVisible'] ?? 0)
  );
}
