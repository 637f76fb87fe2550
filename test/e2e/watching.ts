import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { type CloudWatchClient, DescribeAlarmsCommand } from '@aws-sdk/client-cloudwatch';
import { type SNSClient, SubscribeCommand } from '@aws-sdk/client-sns';
import {
  CreateQueueCommand,
  DeleteMessageCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { ROOT } from '../../local/environment.ts';
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

/** The whole name of an alarm of this cloud. */
const whole = (name: string): string => `sealed-outbox-local-service-${name}`;

/** Waits until the alarm is in this state. */
export async function becomes(metrics: CloudWatchClient, name: string, state: string): Promise<void> {
  await until(
    `${name} is ${state}`,
    async () => {
      const { MetricAlarms } = await metrics.send(new DescribeAlarmsCommand({ AlarmNames: [whole(name)] }));
      return MetricAlarms?.[0]?.StateValue === state ? true : undefined;
    },
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
  const receive = async (): Promise<void> => {
    const { Messages = [] } = await queues.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
    for (const { ReceiptHandle, Body = '{}' } of Messages) {
      await queues.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
      heard.push(JSON.parse((JSON.parse(Body) as { Message: string }).Message) as Told);
    }
  };
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
