import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { type CloudWatchClient, paginateDescribeAlarms } from '@aws-sdk/client-cloudwatch';
import { type SNSClient, SubscribeCommand } from '@aws-sdk/client-sns';
import {
  CreateQueueCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import type { LocalCloud } from '../../local/cloud.ts';
import { ROOT } from '../../local/environment.ts';
import { look } from './runbooks.ts';
import { until } from './until.ts';

/** Runs a command of the operator as its own process, against this cloud. */
export async function command(
  name: 'ops' | 'alarms',
  ...words: readonly string[]
): Promise<{ code: number; stdout: string; stderr: string }> {
  const args = [`cli/${name}.ts`, ...words, '--directory', '.local/e2e'];
  return new Promise((ended) => {
    execFile(process.execPath, args, { cwd: ROOT, timeout: 60_000 }, (error, stdout, stderr) => {
      ended({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
    });
  });
}

const PREFIX = 'sealed-outbox-local-service-';
/** The whole name of an alarm of this cloud. */
const whole = (name: string): string => `${PREFIX}${name}`;

/** Dozens wait at a time, and the emulator has one processor for all. */
const ASK_EVERY_MS = 200;

/** Asks no more often than that, whoever wants to know: the others get the last answer. */
function seldom<T>(ask: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | undefined;
  let again = 0;
  return async () => {
    if (answer === undefined || performance.now() >= again) {
      again = Infinity;
      answer = ask().finally(() => (again = performance.now() + ASK_EVERY_MS));
    }
    return answer;
  };
}

/** Tells the states of all alarms of a cloud, by their whole names. */
function statesOf(metrics: CloudWatchClient): () => Promise<ReadonlyMap<string, string>> {
  return seldom(async () => {
    const found = new Map<string, string>();
    const alarms = paginateDescribeAlarms({ client: metrics }, { AlarmNamePrefix: PREFIX });
    for await (const { MetricAlarms = [] } of alarms)
      for (const { AlarmName = '', StateValue = '' } of MetricAlarms) found.set(AlarmName, StateValue);
    return found;
  });
}

const asked = new Map<CloudWatchClient, ReturnType<typeof statesOf>>();

/** Waits until the alarm is in this state. */
export async function becomes(metrics: CloudWatchClient, name: string, state: string): Promise<void> {
  const states = asked.get(metrics) ?? statesOf(metrics);
  asked.set(metrics, states);
  await until(
    `${name} is ${state}`,
    async () => ((await states()).get(whole(name)) === state ? true : undefined),
    90_000,
  );
}

/** The message of a topic about a change of an alarm. */
export interface Told {
  readonly AlarmName: string;
  readonly AlarmDescription: string;
  readonly NewStateValue: string;
  readonly NewStateReason: string;
}

/** Hears what the alarms' topic says from now on. Asked for an alarm and a state, it answers with the message about that. */
export async function listen(
  queues: SQSClient,
  topics: SNSClient,
  TopicArn: string,
): Promise<(name: string, state: string) => Promise<Told>> {
  const { QueueUrl = '' } = await queues.send(new CreateQueueCommand({ QueueName: `alarms-${randomUUID()}` }));
  const { Attributes } = await queues.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }));
  await topics.send(new SubscribeCommand({ TopicArn, Protocol: 'sqs', Endpoint: Attributes?.['QueueArn'] }));
  const heard: Told[] = [];
  const receive = seldom(async () => {
    const { Messages = [] } = await queues.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
    for (const { ReceiptHandle, Body = '{}' } of Messages) {
      await queues.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
      heard.push(JSON.parse((JSON.parse(Body) as { Message: string }).Message) as Told);
    }
  });
  return async (name, state) =>
    until(
      `a message that ${name} is ${state}`,
      async () => {
        await receive();
        return heard.find((told) => told.AlarmName === whole(name) && told.NewStateValue === state);
      },
      60_000,
    );
}

export interface Clients {
  readonly queues: SQSClient;
  readonly topics: SNSClient;
  readonly metrics: CloudWatchClient;
}

export interface Alarms {
  /** Resolves when alarms are raised and have said so, and all that their runbooks say to look at can be looked at. */
  readonly seen: (...names: readonly string[]) => () => Promise<void>;
  /** Resolves when alarms have gone back and have said so. */
  readonly ended: (...names: readonly string[]) => Promise<void>;
  readonly told: (name: string, state: string) => Promise<Told>;
}

/** Watches the alarms from now on. */
export async function watchAlarms(cloud: LocalCloud, { queues, topics, metrics }: Clients): Promise<Alarms> {
  const told = await listen(queues, topics, cloud.outputs['AlarmTopicArn'] ?? '');
  return {
    told,
    seen:
      (...names) =>
      async () => {
        const runbooks = await Promise.all(
          names.map(async (alarm) => {
            await becomes(metrics, alarm, 'ALARM');
            const { AlarmDescription } = await told(alarm, 'ALARM');
            return /Runbook: (docs\/runbooks\/.*)$/.exec(AlarmDescription)?.[1] ?? `${alarm} names no runbook`;
          }),
        );
        await Promise.all([...new Set(runbooks)].map((runbook) => look(cloud, runbook)));
      },
    ended: async (...names) => {
      await Promise.all(
        names.map(async (alarm) => {
          await becomes(metrics, alarm, 'OK');
          await told(alarm, 'OK');
        }),
      );
    },
  };
}
