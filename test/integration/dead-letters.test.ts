import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { startFauxqs } from 'fauxqs';
import { afterAll, describe, expect, it } from 'vitest';
import { redriveDeadLetters } from '../../shared/outbox/index.ts';
import { sqsClient } from '../support/aws-clients.ts';
import { movedClock } from '../support/moved-clock.ts';

const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
const aws = {
  endpoint: `http://127.0.0.1:${server.port}`,
  region: 'us-east-1',
  credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
};
const client = sqsClient(aws);
afterAll(async () => {
  client.destroy();
  await server.stop();
});

interface Queues {
  readonly from: string;
  readonly to: string;
}

let made = 0;
/** A queue and its dead-letter queue. */
function queues(kind: 'fifo' | 'standard'): Queues {
  made += 1;
  const suffix = kind === 'fifo' ? '.fifo' : '';
  const attributes = kind === 'fifo' ? { FifoQueue: 'true' } : {};
  const dead = `dead-${made}${suffix}`;
  const { queueUrl: from } = server.createQueue(dead, { attributes });
  const RedrivePolicy = JSON.stringify({
    deadLetterTargetArn: `arn:aws:sqs:us-east-1:000000000000:${dead}`,
    maxReceiveCount: 1,
  });
  const { queueUrl: to } = server.createQueue(`live-${made}${suffix}`, {
    attributes: { ...attributes, RedrivePolicy },
  });
  return { from, to };
}

/** Puts messages into a queue: `group#n`. */
async function put(url: string, ...bodies: readonly string[]): Promise<void> {
  for (const body of bodies) {
    await client.send(
      new SendMessageCommand({
        QueueUrl: url,
        MessageBody: body,
        MessageAttributes: { ERROR_CODE: { DataType: 'String', StringValue: 'NO_PERMISSIONS' } },
        ...(url.endsWith('.fifo') && {
          MessageGroupId: body.split('#')[0],
          MessageDeduplicationId: body.replace('#', '-'),
        }),
      }),
    );
  }
}

/** Everything that a queue gives out, removed. */
async function take(url: string): Promise<Message[]> {
  const all: Message[] = [];
  for (;;) {
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({
        QueueUrl: url,
        MaxNumberOfMessages: 10,
        MessageSystemAttributeNames: ['All'],
        MessageAttributeNames: ['All'],
      }),
    );
    if (Messages.length === 0) return all;
    all.push(...Messages);
    await client.send(
      new DeleteMessageBatchCommand({
        QueueUrl: url,
        Entries: Messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle })),
      }),
    );
  }
}

const bodies = (messages: readonly Message[], group = ''): string[] =>
  messages.map(({ Body }) => Body ?? '').filter((body) => body.startsWith(group));

/** The client, but `on` may answer or throw instead of a call, or after it. */
function between(on: (command: unknown, real: () => Promise<unknown>) => Promise<unknown>): SQSClient {
  return new Proxy(client, {
    get: (target, name) =>
      name === 'send'
        ? (command: Parameters<SQSClient['send']>[0]) => on(command, async () => target.send(command))
        : Reflect.get(target, name),
  });
}

const FAST = { client, perSecond: 1_000_000 };

describe('redriving dead letters', () => {
  it('of a FIFO queue sends each group in order, behind what is there already', async () => {
    const { from, to } = queues('fifo');
    const places = Array.from({ length: 12 }, (_, n) => [`a#${n}`, `b#${n}`]).flat();
    await put(from, ...places);
    await put(to, 'a#live');
    expect(await redriveDeadLetters({ ...FAST, from, to })).toEqual({
      waiting: 24,
      moved: 24,
      left: 0,
      ended: 'empty',
    });
    const arrived = await take(to);
    expect(bodies(arrived, 'a')).toEqual(['a#live', ...places.filter((place) => place.startsWith('a'))]);
    expect(bodies(arrived, 'b')).toEqual(places.filter((place) => place.startsWith('b')));
    expect(await take(from)).toEqual([]);
  });

  it('of a standard queue sends them all, with their attributes', async () => {
    const { from, to } = queues('standard');
    await put(from, 'x#1', 'x#2');
    expect(await redriveDeadLetters({ ...FAST, from, to })).toMatchObject({ moved: 2, ended: 'empty' });
    const arrived = await take(to);
    expect(bodies(arrived).toSorted()).toEqual(['x#1', 'x#2']);
    expect(arrived[0]!.MessageAttributes).toMatchObject({ ERROR_CODE: { StringValue: 'NO_PERMISSIONS' } });
  });

  it('like case 18: is not swallowed by the five minutes after the first send', async () => {
    const { from, to } = queues('fifo');
    await put(to, 'a#1');
    for (let round = 0; round < 2; round += 1) {
      // Received once and given up: the queue moves it to its dead letters.
      for (let n = 0; n < 2; n += 1) {
        await client.send(
          new ReceiveMessageCommand({ QueueUrl: to, VisibilityTimeout: 0, MessageSystemAttributeNames: ['All'] }),
        );
      }
      expect(await redriveDeadLetters({ ...FAST, from, to })).toMatchObject({ moved: 1 });
    }
    expect(bodies(await take(to))).toEqual(['a#1']);
  });

  it('only counts in a dry run', async () => {
    const { from, to } = queues('fifo');
    await put(from, 'a#1', 'b#1');
    expect(await redriveDeadLetters({ ...FAST, from, to, dryRun: true })).toEqual({
      waiting: 2,
      moved: 0,
      left: 2,
      ended: 'counted',
    });
    expect(await take(to)).toEqual([]);
    expect(await take(from)).toHaveLength(2);
  });

  it('keeps to its pace', async () => {
    const { from, to } = queues('fifo');
    await put(from, ...Array.from({ length: 25 }, (_, n) => `g${n}#1`));
    const clock = movedClock();
    const slept: number[] = [];
    const paced = { ...clock, sleep: async (ms: number) => void slept.push(ms) };
    await redriveDeadLetters({ client, from, to, perSecond: 5, clock: paced });
    expect(slept).toEqual([2000, 2000, 1000]);
  });

  it('loses nothing when it dies between sending and removing; a repeat has the same deduplication id', async () => {
    const { from, to } = queues('fifo');
    await put(from, 'a#1', 'a#2', 'b#1');
    const ids: (string | undefined)[] = [];
    const watched = async (command: unknown, real: () => Promise<unknown>): Promise<unknown> => {
      if (command instanceof SendMessageBatchCommand) {
        ids.push(...(command.input.Entries ?? []).map(({ MessageDeduplicationId }) => MessageDeduplicationId));
      }
      return real();
    };
    const dying = between(async (command, real) => {
      if (command instanceof DeleteMessageBatchCommand) throw new Error('killed');
      // Nor does it give anything back: as if the time of invisibility were over.
      if (command instanceof ChangeMessageVisibilityBatchCommand) throw new Error('killed');
      if (command instanceof ReceiveMessageCommand) command.input.VisibilityTimeout = 0;
      return watched(command, real);
    });
    await expect(redriveDeadLetters({ ...FAST, client: dying, from, to })).rejects.toThrow('killed');
    expect(await redriveDeadLetters({ ...FAST, client: between(watched), from, to })).toMatchObject({ moved: 3 });
    expect(ids).toHaveLength(5);
    expect(new Set(ids).size).toBe(3);
    const arrived = await take(to);
    expect(bodies(arrived, 'a')).toEqual(['a#1', 'a#2']);
    expect(bodies(arrived, 'b')).toEqual(['b#1']);
  });

  it('makes several calls of what is too large for one', async () => {
    const { from, to } = queues('fifo');
    const large = Array.from({ length: 3 }, (_, n) => `g${n}#${'x'.repeat(500_000)}`);
    for (const body of large) {
      const entry = { MessageBody: body, MessageGroupId: body.slice(0, 2), MessageDeduplicationId: body.slice(0, 2) };
      await client.send(new SendMessageCommand({ QueueUrl: from, ...entry }));
    }
    const calls: number[] = [];
    const counting = between(async (command, real) => {
      if (command instanceof SendMessageBatchCommand) calls.push(command.input.Entries?.length ?? 0);
      return real();
    });
    expect(await redriveDeadLetters({ ...FAST, client: counting, from, to })).toMatchObject({ moved: 3 });
    expect(calls).toEqual([2, 1]);
  });

  it('sends no second message of a group in a call, and none after one that was refused', async () => {
    const { from, to } = queues('fifo');
    const clock = { ...movedClock(), sleep: async () => {} };
    const places = ['a#1', 'a#2', 'b#1', 'a#3', 'b#2'];
    const received = places.map((Body) => ({
      MessageId: Body.replace('#', '-'),
      ReceiptHandle: Body,
      Body,
      Attributes: { MessageGroupId: Body[0]! },
    }));
    const run = async (bad: string): Promise<{ calls: string[][]; removed: string[]; end: unknown }> => {
      const calls: string[][] = [];
      const removed: string[] = [];
      let receives = 0;
      const scripted = between(async (command, real) => {
        if (command instanceof ReceiveMessageCommand) {
          receives += 1;
          return { Messages: receives === 1 ? received : [] };
        }
        if (command instanceof DeleteMessageBatchCommand) {
          removed.push(...(command.input.Entries ?? []).map(({ ReceiptHandle }) => ReceiptHandle ?? ''));
          return {};
        }
        if (!(command instanceof SendMessageBatchCommand)) return real();
        const { Entries = [] } = command.input;
        calls.push(Entries.map(({ MessageBody }) => MessageBody ?? ''));
        return {
          Successful: Entries.filter(({ MessageBody }) => MessageBody !== bad).map(({ Id }) => ({ Id, MessageId: Id })),
          Failed: Entries.filter(({ MessageBody }) => MessageBody === bad).map(({ Id }) => ({ Id, Code: 'Odd' })),
        };
      });
      const end = await redriveDeadLetters({ ...FAST, client: scripted, from, to, clock }).catch(
        (error: unknown) => error,
      );
      return { calls, removed, end };
    };
    expect(await run('none')).toMatchObject({
      calls: [['a#1', 'b#1'], ['a#2', 'b#2'], ['a#3']],
      removed: ['a#1', 'b#1', 'a#2', 'b#2', 'a#3'],
      end: { moved: 5 },
    });
    expect(await run('a#2')).toMatchObject({
      calls: [['a#1', 'b#1'], ['a#2', 'b#2'], ['a#2'], ['a#2']],
      removed: ['a#1', 'b#1', 'b#2'],
      end: { code: 'REDRIVE_REFUSED' },
    });
  });

  it('stops when one of its own comes back, the consumer still fails; and leaves it and the rest there to be seen', async () => {
    const { from, to } = queues('standard');
    await put(from, ...Array.from({ length: 12 }, (_, n) => `a#${n}`));
    let received = 0;
    const failing = between(async (command, real) => {
      if (command instanceof ReceiveMessageCommand && (received += 1) === 2) {
        // What was sent is received once and given up: the queue moves it behind the two that are there still.
        for (let n = 0; n < 2; n += 1) {
          await client.send(new ReceiveMessageCommand({ QueueUrl: to, MaxNumberOfMessages: 10, VisibilityTimeout: 0 }));
        }
      }
      return real();
    });
    expect(await redriveDeadLetters({ ...FAST, client: failing, from, to })).toEqual({
      waiting: 12,
      moved: 12,
      left: 10,
      ended: 'came-back',
    });
    expect(bodies(await take(from))).toHaveLength(10);
    expect(bodies(await take(to))).toHaveLength(2);
  });

  it.for(['send', 'remove'] as const)(
    'that fails at a call to %s leaves all that stays to be seen at once',
    async (what) => {
      const { from, to } = queues('fifo');
      await put(from, 'a#1', 'a#2', 'b#1');
      const refused = what === 'send' ? SendMessageBatchCommand : DeleteMessageBatchCommand;
      const failing = between(async (command, real) => {
        if (command instanceof refused) throw new Error('refused');
        return real();
      });
      await expect(redriveDeadLetters({ ...FAST, client: failing, from, to })).rejects.toThrow('refused');
      expect(bodies(await take(from)).toSorted()).toEqual(['a#1', 'a#2', 'b#1']);
    },
  );

  it('does not hide an error behind one of giving back', async () => {
    const { from, to } = queues('fifo');
    await put(from, 'a#1');
    const failing = between(async (command, real) => {
      if (command instanceof SendMessageBatchCommand) throw new Error('the first');
      if (command instanceof ChangeMessageVisibilityBatchCommand) throw new Error('the second');
      return real();
    });
    await expect(redriveDeadLetters({ ...FAST, client: failing, from, to })).rejects.toThrow('the first');
  });

  it('counts as left what another receiver has out', async () => {
    const { from, to } = queues('standard');
    await put(from, 'x#1', 'x#2', 'x#3');
    await client.send(new ReceiveMessageCommand({ QueueUrl: from, MaxNumberOfMessages: 2 }));
    expect(await redriveDeadLetters({ ...FAST, from, to })).toEqual({ waiting: 3, moved: 1, left: 2, ended: 'empty' });
  });

  it('tells what it has moved also where nothing can be counted any more', async () => {
    const { from, to } = queues('standard');
    await put(from, 'x#1');
    let asked = 0;
    const deaf = between(async (command, real) => {
      if (command instanceof GetQueueAttributesCommand && (asked += 1) > 2) throw new Error('no answer');
      return real();
    });
    expect(await redriveDeadLetters({ ...FAST, client: deaf, from, to })).toEqual({
      waiting: 1,
      moved: 1,
      left: null,
      ended: 'empty',
    });
  });

  it('refuses two queues that do not belong together', async () => {
    const [one, another] = [queues('fifo'), queues('fifo')];
    await expect(redriveDeadLetters({ ...FAST, from: one.from, to: another.to })).rejects.toMatchObject({
      code: 'REDRIVE_QUEUES',
    });
  });

  it('ends early when it is told to, after the call in flight', async () => {
    const { from, to } = queues('fifo');
    await put(from, ...Array.from({ length: 30 }, (_, n) => `g${n}#1`));
    const stop = new AbortController();
    const stopping = between(async (command, real) => {
      if (command instanceof SendMessageBatchCommand) stop.abort();
      return real();
    });
    expect(await redriveDeadLetters({ ...FAST, client: stopping, from, to, signal: stop.signal })).toEqual({
      waiting: 30,
      moved: 10,
      left: 20,
      ended: 'stopped',
    });
    expect(await take(from)).toHaveLength(20);
  });
});
