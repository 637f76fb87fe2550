import { setTimeout as delay } from 'node:timers/promises';
import { redriveDeadLetters } from '../../shared/outbox/index.ts';
import { sqsClient } from '../support/aws-clients.ts';
import { CONSUMERS } from './catalogue.ts';
import { queueAt } from './queue-calls.ts';
import type { Stage } from './stage.ts';

/** Between two looks at the dead-letter queues. Milliseconds. */
const EVERY_MS = 500;
const PER_SECOND = 500;

/** Sends dead letters to their queue again, as an operator would, until the signal. */
export async function redriveAlways(
  { port, urls, dead }: Stage['queue'],
  injected: (kind: string, times: number) => void,
  signal: AbortSignal,
): Promise<void> {
  const client = sqsClient({
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  });
  try {
    while (!signal.aborted) {
      for (const name of CONSUMERS) {
        const from = dead[name] ?? '';
        if ((await queueAt(port, from).depth()) === 0) continue;
        const { moved } = await redriveDeadLetters({
          client,
          from,
          to: urls[name] ?? '',
          perSecond: PER_SECOND,
          signal,
        });
        if (moved > 0) injected('dead letter redriven', moved);
      }
      await delay(EVERY_MS, undefined, { signal }).catch(() => {});
    }
  } finally {
    client.destroy();
  }
}
