import { CloudWatchLogs } from '@aws-sdk/client-cloudwatch-logs';
import { EventBridge } from '@aws-sdk/client-eventbridge';
import { KMS } from '@aws-sdk/client-kms';
import { Lambda } from '@aws-sdk/client-lambda';
import { S3 } from '@aws-sdk/client-s3';
import { SNS } from '@aws-sdk/client-sns';
import { SQS } from '@aws-sdk/client-sqs';
import { ACCOUNT, REGION } from '../../local/environment.ts';
import type { Caller } from './iam.ts';
import type { Synthesised } from './synthesised.ts';

/** Buckets have names of their own; everything else is called as in the template. */
export const LOG = 'erasures-of-the-trial';
export const ARCHIVE = 'archive-of-the-trial';

/** Clients of one caller. A client costs more than its calls. */
export type Clients = ReturnType<typeof clientsOf>;

export function clientsOf(caller: Caller) {
  const settings = { ...caller, maxAttempts: 1 };
  return {
    kms: new KMS(settings),
    s3: new S3({ ...settings, forcePathStyle: true }),
    sqs: new SQS({ ...settings, useQueueUrlAsEndpoint: false }),
    events: new EventBridge(settings),
    lambda: new Lambda(settings),
    logs: new CloudWatchLogs(settings),
    sns: new SNS(settings),
  };
}

/** What CloudFormation would put in: the ARNs of the trial's resources. */
export function arnsOf(
  { resources }: Synthesised,
  keyArn: string,
): (id: string, attribute: string | undefined) => string {
  const pseudo: Readonly<Record<string, string>> = {
    'AWS::Partition': 'aws',
    'AWS::AccountId': ACCOUNT,
    'AWS::Region': REGION,
  };
  const arn = (service: string, rest: string): string => `arn:aws:${service}:${REGION}:${ACCOUNT}:${rest}`;
  const kinds: readonly (readonly [type: string, arnOf: (name: string) => string])[] = [
    ['AWS::SQS::Queue', (name) => arn('sqs', name)],
    ['AWS::Events::EventBus', (name) => arn('events', `event-bus/${name}`)],
    ['AWS::Lambda::Function', (name) => arn('lambda', `function:${name}`)],
    // On AWS `:*` follows, for the streams of the group; the emulator asks for the group itself.
    ['AWS::Logs::LogGroup', (name) => arn('logs', `log-group:${name}`)],
    ['AWS::SNS::Topic', (name) => arn('sns', name)],
    ['AWS::S3::Bucket', (name) => `arn:aws:s3:::${name.startsWith('Erasures') ? LOG : ARCHIVE}`],
  ];
  const known = new Map(
    kinds.flatMap(([type, arnOf]) => resources(type).map(([id]) => [id, arnOf(nameOf(id))] as const)),
  );
  return (id) => pseudo[id] ?? (id.startsWith('KeysKey') ? keyArn : (known.get(id) ?? nameOf(id)));
}

/** The trial's name of a resource of the template. */
export const nameOf = (id: string): string => id.replace(/[0-9A-F]{8}$/, '');

export const QUEUES = ['Ledger', 'Analytics', 'Notifications'].flatMap((name) => [
  `${name}Queue`,
  `${name}DeadLetters`,
]);
const url = (queue: string): string => `http://127.0.0.1/${ACCOUNT}/${queue}`;

const entry = { Source: '/invoices', DetailType: 'invoice.paid', Detail: '{}' };

/**
 * Calls by name, each with what it is made on. Two of the functions' calls the emulator decides otherwise than AWS, so they are not here:
 * it looks for `sqs:SendMessageBatch`, which on AWS is `sqs:SendMessage`, and takes the bus of DescribeEventBus for a rule.
 */
export const CALLS: Readonly<Record<string, (clients: Clients) => Promise<unknown>>> = Object.fromEntries([
  ...QUEUES.flatMap((queue): [string, (clients: Clients) => Promise<unknown>][] => {
    const QueueUrl = url(queue);
    return [
      [`send ${queue}`, ({ sqs }) => sqs.sendMessage({ QueueUrl, MessageBody: '{}' })],
      [`receive ${queue}`, ({ sqs }) => sqs.receiveMessage({ QueueUrl, VisibilityTimeout: 0 })],
      [`delete ${queue}`, ({ sqs }) => sqs.deleteMessage({ QueueUrl, ReceiptHandle: 'none' })],
      [
        `hide ${queue}`,
        ({ sqs }) => sqs.changeMessageVisibility({ QueueUrl, ReceiptHandle: 'none', VisibilityTimeout: 1 }),
      ],
      [`describe ${queue}`, ({ sqs }) => sqs.getQueueAttributes({ QueueUrl, AttributeNames: ['All'] })],
      [`find ${queue}`, ({ sqs }) => sqs.getQueueUrl({ QueueName: queue })],
      [`purge ${queue}`, ({ sqs }) => sqs.purgeQueue({ QueueUrl })],
    ];
  }),
  ['put Bus', ({ events }) => events.putEvents({ Entries: [{ ...entry, EventBusName: 'Bus' }] })],
  ['put default', ({ events }) => events.putEvents({ Entries: [entry] })],
  [
    'rule Bus',
    ({ events }) => events.putRule({ Name: 'mine', EventBusName: 'Bus', EventPattern: '{"source":["/invoices"]}' }),
  ],
  ['archive', ({ s3 }) => s3.putObject({ Bucket: ARCHIVE, Key: 'events/1.ndjson', Body: '{}' })],
  ['archive elsewhere', ({ s3 }) => s3.putObject({ Bucket: ARCHIVE, Key: 'other', Body: '{}' })],
  ['read the archive', ({ s3 }) => s3.getObject({ Bucket: ARCHIVE, Key: 'events/0.ndjson' })],
  ['list the archive', ({ s3 }) => s3.listObjectsV2({ Bucket: ARCHIVE })],
  ['list its events', ({ s3 }) => s3.listObjectsV2({ Bucket: ARCHIVE, Prefix: 'events/' })],
  ['delete from the archive', ({ s3 }) => s3.deleteObject({ Bucket: ARCHIVE, Key: 'events/0.ndjson' })],
  ['alarm', ({ sns }) => sns.publish({ TopicArn: `arn:aws:sns:${REGION}:${ACCOUNT}:Alarms`, Message: 'false alarm' })],
  ...['OutboxRelay', 'OperatorFunction', 'DatabaseMigrate', 'InvoicesFunction'].map(
    (name) => [`invoke ${name}`, invoke(name)] as const,
  ),
]);

export function invoke(FunctionName: string): (clients: Clients) => Promise<unknown> {
  return ({ lambda }) => lambda.invoke({ FunctionName, InvocationType: 'Event' });
}

/** As Lambda does, with the role of a function, for what the function writes. */
export function write(logGroupName: string): (clients: Clients) => Promise<unknown> {
  return async ({ logs }) => {
    const logStreamName = crypto.randomUUID();
    await logs.createLogStream({ logGroupName, logStreamName });
    await logs.putLogEvents({ logGroupName, logStreamName, logEvents: [{ timestamp: Date.now(), message: '{}' }] });
  };
}

/** IAM let the call pass, and the service had nothing to do it with. */
const PASSED = new Set(['ReceiptHandleIsInvalid', 'ResourceNotFoundException']);

/** `yes`, or AWS's name for the refusal. */
export async function tried(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'yes';
  } catch (error) {
    const { name, code } = error as { readonly name?: string; readonly code?: string };
    const said = code ?? name ?? 'unknown';
    return PASSED.has(said) ? 'yes' : said;
  }
}
