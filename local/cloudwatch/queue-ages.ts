import type { Sample } from './samples.ts';

/** The emulator's own view of its messages: by account, region and queue. */
interface Messages {
  readonly messages: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, readonly Message[]>>>>>>;
}

interface Message {
  readonly Attributes: { readonly SentTimestamp?: string };
}

/**
 * `ApproximateAgeOfOldestMessage` of every queue, which no call of SQS tells: by a look into the emulator that receives nothing, and so changes nothing.
 *
 * @param endpoint of the local AWS
 * @param now milliseconds since 1970
 */
export async function readQueueAges(endpoint: string, now: () => number): Promise<Sample[]> {
  const answer = await fetch(`${endpoint}/_ministack/sqs/messages`);
  if (!answer.ok) throw new Error(`the local AWS does not show its messages: it answered with ${answer.status}`);
  return queueAges((await answer.json()) as Messages, now());
}

/** 0 where no message is: an age that is known. */
export function queueAges({ messages }: Messages, now: number): Sample[] {
  return Object.values(messages)
    .flatMap((regions) => Object.values(regions))
    .flatMap((queues) => Object.entries(queues))
    .map(([url, waiting]) => {
      const sent = waiting.map(({ Attributes: { SentTimestamp } }) => Number(SentTimestamp ?? now));
      return {
        namespace: 'AWS/SQS',
        name: 'ApproximateAgeOfOldestMessage',
        dimensions: { QueueName: url.slice(url.lastIndexOf('/') + 1) },
        value: sent.length === 0 ? 0 : Math.max(0, now - Math.min(...sent)) / 1_000,
        unit: 'Seconds',
        at: now,
      };
    });
}
