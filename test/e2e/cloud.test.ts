import { randomUUID } from 'node:crypto';
import { CloudWatchClient } from '@aws-sdk/client-cloudwatch';
import {
  CloudWatchLogsClient,
  DescribeLogGroupsCommand,
  FilterLogEventsCommand,
} from '@aws-sdk/client-cloudwatch-logs';
import {
  DeleteFunctionConcurrencyCommand,
  GetFunctionConfigurationCommand,
  InvokeCommand,
  LambdaClient,
  PutFunctionConcurrencyCommand,
} from '@aws-sdk/client-lambda';
import { S3 } from '@aws-sdk/client-s3';
import { SNSClient } from '@aws-sdk/client-sns';
import {
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
  SetQueueAttributesCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { afterAll, describe, expect, inject, it } from 'vitest';
import { readFacts } from '../../local/check/facts.ts';
import { arrival, checkTraffic } from '../../local/check/run.ts';
import { invoiceBody, MARKER, postJson, sendInvoice } from '../../local/check/traffic.ts';
import { asSuperuser } from '../../local/postgres.ts';
import { readArchive, s3Archive } from '../../shared/archive/index.ts';
import { allOf } from '../support/archive-conformance.ts';
import { erasureTests } from './erasure.ts';
import { killFunction } from './function-process.ts';
import { forgetReplay, takeRight } from './janitor-troubles.ts';
import { crowdDatabase, disableKey, orphan, serveLate, serveQueue, slowDown, withoutDestination } from './troubles.ts';
import { unfinishedTests } from './unfinished.ts';
import { until } from './until.ts';
import { becomes, command, listen, watchAlarms } from './watching.ts';

const cloud = inject('cloud');
const { outputs, apiUrl, client } = cloud;
const queues = new SQSClient({ ...client, useQueueUrlAsEndpoint: false });
const lambda = new LambdaClient(client);
const metrics = new CloudWatchClient(client);
const logs = new CloudWatchLogsClient(client);
const topics = new SNSClient(client);
const clients = { queues, topics, metrics, lambda };
afterAll(() => {
  for (const one of [queues, lambda, metrics, logs, topics]) one.destroy();
});

const output = (name: string): string => outputs[name] ?? `the stacks have no output ${name}`;
const facts = async () => asSuperuser(cloud.database, cloud.database.name, readFacts);
const arrived = async () => asSuperuser(cloud.database, cloud.database.name, async (db) => arrival(db));

// First, because a walk ends before the first delivery that is young.
describe('the deployed janitor', () => {
  it('puts an old event into the bucket and takes it out of the outbox', async () => {
    const id = '01900000-0000-7000-8000-000000000001';
    const data = '{"big": 12345678901234567890}';
    await asSuperuser(cloud.database, cloud.database.name, async (db) => {
      await db.query(
        `insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, occurred_at)
         values ($1, 'invoice', 'old', 1, 'invoice.issued', 1, $2, '2026-01-02T03:04:05Z')`,
        [id, data],
      );
      await db.query(
        `insert into outbox.delivery (event_id, aggregate_key, sequence, destination, partition, bytes, state, created_at, published_at)
         select $1, outbox.aggregate_key('invoice', 'old'), 1, min(number), 0, 1, 'published', '2026-01-02', '2026-01-02' from outbox.destination`,
        [id],
      );
    });
    const { FunctionError } = await lambda.send(
      new InvokeCommand({
        FunctionName: output('JanitorFunctionName'),
        InvocationType: 'RequestResponse',
        Payload: '{}',
      }),
    );
    expect(FunctionError).toBeUndefined();
    // Another run may have been before, and be at it.
    await until(
      'the old event is out of the outbox',
      async () => ((await facts()).events.some((event) => event.id === id) ? undefined : true),
      30_000,
    );
    const bucket = new S3({ ...client, forcePathStyle: true });
    try {
      const archived = await allOf(readArchive(s3Archive({ client: bucket, bucket: output('ArchiveBucketName') })));
      expect(archived).toEqual([expect.objectContaining({ id, data, occurredAt: '2026-01-02T03:04:05.000000Z' })]);
    } finally {
      bucket.destroy();
    }
  });
});

describe('the deployed way of an event', () => {
  it('carries an invoice from the API to its effect in the ledger, within 1.5 s at the median while idle', async () => {
    const { summary, idleMs } = await checkTraffic(cloud, { invoices: 0, lanes: 1 }, 5);
    expect(summary.wrong).toEqual([]);
    expect(idleMs).toHaveLength(5);
    expect(idleMs[2]).toBeLessThan(1_500);
  });

  it('applies every event once and in order, whatever is sent at the same time or twice', async () => {
    const { summary, repeats } = await checkTraffic(cloud, { invoices: 12, lanes: 3 }, 0);
    expect(summary.wrong).toEqual([]);
    expect(summary).toMatchObject({ orderBreaks: 0, duplicates: 0 });
    expect(summary.effects).toBe(summary.committed);
    expect(summary.counted).toBe(summary.committed);
    expect(repeats).toBeGreaterThan(5);
  });

  it('writes one event for an idempotency key, however often it comes, even at the same moment', async () => {
    const key = randomUUID();
    const body = invoiceBody(2);
    const answers = await Promise.all([1, 2, 3].map(async () => postJson(`${apiUrl}/invoices`, key, body)));
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    await arrived();
    const { events, entries } = await facts();
    const id = answers[0]?.body['id'];
    expect(events.filter(({ invoiceId }) => invoiceId === id)).toHaveLength(1);
    expect(entries.filter(({ invoiceId }) => invoiceId === id)).toHaveLength(1);
  });
});

describe('personal data', () => {
  it('stands in no log of a function or of the gateway', async () => {
    await sendInvoice(apiUrl);
    expect(await arrived()).toBe(true);
    const { logGroups = [] } = await logs.send(new DescribeLogGroupsCommand({}));
    expect(logGroups.length).toBeGreaterThan(5);
    for (const { logGroupName } of logGroups) {
      const { events = [] } = await logs.send(new FilterLogEventsCommand({ logGroupName, filterPattern: MARKER }));
      expect(events, `lines of ${logGroupName}`).toEqual([]);
    }
  });
});

describe('a mail provider that sends and does not answer', () => {
  it('sends one mail for the invoice all the same', async () => {
    const QueueUrl = output('NotificationsQueueUrl');
    const setVisibility = async (VisibilityTimeout: string) =>
      queues.send(new SetQueueAttributesCommand({ QueueUrl, Attributes: { VisibilityTimeout } }));
    const before = await queues.send(
      new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['VisibilityTimeout'] }),
    );
    await setVisibility('1');
    try {
      expect(await plan('act-and-drop')).toEqual(['act-and-drop']);
      await sendInvoice(apiUrl);
      expect(await arrived()).toBe(true);
      expect(await plan()).toEqual([]);
      const { summary } = await checkTraffic(cloud, { invoices: 0, lanes: 1 }, 0);
      expect(summary.wrong).toEqual([]);
    } finally {
      await setVisibility(before.Attributes?.VisibilityTimeout ?? '30');
    }
    const calls = await asSuperuser(cloud.database, cloud.database.name, async (db) =>
      db.query(`select from inbox.external_call where consumer = 'notifications' and state <> 'done'`),
    );
    expect(calls.rowCount).toBe(0);
  });

  /** What the provider's next requests meet. */
  const plan = async (...faults: string[]): Promise<unknown> => {
    const response = await fetch(`${cloud.mailProviderUrl}/admin/faults`, {
      method: 'POST',
      body: JSON.stringify({ faults }),
    });
    return ((await response.json()) as { planned: unknown }).planned;
  };
});

describe('a message that is no envelope', () => {
  it('is held, with a log line that says why and an alarm that ends when a person has decided, while the others go on', async () => {
    const text = `no envelope ${randomUUID()}`;
    await queues.send(
      new SendMessageCommand({
        QueueUrl: output('LedgerQueueUrl'),
        MessageBody: text,
        MessageGroupId: 'stranger',
        MessageDeduplicationId: randomUUID(),
      }),
    );
    const id = await sendInvoice(apiUrl);
    expect(await arrived()).toBe(true);
    expect((await facts()).ledger.map(({ invoiceId }) => invoiceId)).toContain(id);

    const held = await until('the message is held', async () => (await facts()).held[0], 30_000);
    expect(held).toMatchObject({ consumer: 'ledger', reason: 'malformed' });
    const line = await until('a log line about the message', async () => logLine('malformed'), 10_000);
    expect(line).not.toContain(text);
    const alarm = 'held-ledger';
    await becomes(metrics, alarm, 'ALARM');
    const raised = await command('alarms', '--json');
    expect(JSON.parse(raised.stdout)).toContainEqual(
      expect.objectContaining({ name: 'held-ledger', state: 'ALARM', runbook: 'docs/runbooks/held.md' }),
    );
    const unsure = await command('ops', 'held', 'skip', 'ledger', held.eventId, '--reason', 'no event of ours');
    expect(unsure).toMatchObject({ code: 2, stderr: expect.stringContaining('Nothing was changed') });
    const skipped = await command(
      'ops',
      'held',
      'skip',
      'ledger',
      held.eventId,
      '--reason',
      'no event of ours',
      '--yes',
    );
    expect(skipped).toMatchObject({ code: 0, stdout: 'done  true\n' });
    await becomes(metrics, alarm, 'OK');
    expect((await facts()).held).toEqual([]);
  });

  it('a consumer goes on with what it holds when its schedule asks', async () => {
    const { FunctionError } = await lambda.send(
      new InvokeCommand({ FunctionName: output('LedgerFunctionName'), Payload: '{"action":"drain-held"}' }),
    );
    expect(FunctionError).toBeUndefined();
  });

  const logLine = async (contains: string): Promise<string | undefined> => {
    const name = { FunctionName: output('LedgerFunctionName') };
    const { LoggingConfig } = await lambda.send(new GetFunctionConfigurationCommand(name));
    const logGroupName = LoggingConfig?.LogGroup;
    const { events } = await logs.send(new FilterLogEventsCommand({ logGroupName, filterPattern: contains }));
    return events?.[0]?.message;
  };
});

describe('an operator', () => {
  it('sees what waits where, who relays, and who did what', async () => {
    const { code, stdout } = await command('ops', 'status', '--json');
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      ok: true,
      act: null,
      result: {
        partitions: 64,
        destinations: [{ destination: 'analytics' }, { destination: 'ledger' }, { destination: 'notifications' }],
        relays: expect.arrayContaining([expect.objectContaining({ slot: 'sealed-outbox-local-service-relay' })]),
        consumers: [{ consumer: 'analytics' }, { consumer: 'ledger' }, { consumer: 'notifications' }],
      },
    });
    const dead = await command('ops', 'dead-letters', 'list');
    expect(dead.stdout).toMatch(/queue +dead letters +in queue\n +ledger +0/);
    const acts = await command('ops', 'acts', 'list', '--json');
    expect(JSON.parse(acts.stdout).result.acts).toContainEqual(
      expect.objectContaining({
        command: 'held skip',
        claimedBy: expect.stringMatching(/^local:./),
        requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
        outcome: 'done',
      }),
    );
  });
});

describe('a relay that stands still', () => {
  it('raises the lag alarm with its SNS message, and ends it when the relay is back; likewise those of a queue, late effects, the database, a slow function, a disabled key, old rows and a destination that is gone', async () => {
    const name = 'oldest-pending-age-ledger';
    const { seen, ended, told } = await watchAlarms(cloud, clients);
    await becomes(metrics, name, 'OK');
    const FunctionName = output('RelayFunctionName');
    const analytics = output('AnalyticsFunctionName');
    const ledger = output('LedgerFunctionName');
    await serveQueue(lambda, analytics, false);
    for (let sent = 0; sent < 15; sent += 1) await sendInvoice(apiUrl);
    await until(
      'the messages wait for analytics',
      async () => ((await waiting(output('AnalyticsQueueUrl'))) >= 15 ? true : undefined),
      20_000,
    );
    // What an operator does to stop a function: no invocation may run any more, and the one that runs dies.
    await lambda.send(new PutFunctionConcurrencyCommand({ FunctionName, ReservedConcurrentExecutions: 0 }));
    killFunction(FunctionName);
    let id: string;
    const keyAlarms = ['kms-errors', 'canary-failed', 'canary-age', 'branch-key-age', 'errors-janitor'];
    const databaseAlarms = ['connections', 'oldest-transaction', 'snapshot-age', 'transaction-id-age'];
    try {
      id = await sendInvoice(apiUrl);
      for (let sent = 0; sent < 10; sent += 1) await sendInvoice(apiUrl);
      await Promise.all([
        seen(name, 'pending-ledger', 'queue-age-analytics')(),
        crowdDatabase(cloud, seen(...databaseAlarms)),
        slowDown(cloud, lambda, ledger, seen('errors-ledger', 'duration-ledger')),
        disableKey(cloud, seen(...keyAlarms)),
        forgetReplay(cloud, seen('prune-lag-outbox')),
        takeRight(cloud, seen('prune-lag-inbox')),
        serveLate(cloud, lambda, seen('effect-age-analytics')),
        withoutDestination(cloud, 'notifications', seen('unroutable')),
      ]);
      expect(await told(name, 'ALARM')).toMatchObject({
        AlarmDescription: expect.stringMatching('Runbook: docs/runbooks/lag.md'),
      });
      expect((await facts()).ledger.map(({ invoiceId }) => invoiceId)).not.toContain(id);
    } finally {
      await lambda.send(new DeleteFunctionConcurrencyCommand({ FunctionName }));
      await serveQueue(lambda, analytics, true);
    }
    await lambda.send(new InvokeCommand({ FunctionName, InvocationType: 'Event', Payload: '{}' }));
    expect(await arrived()).toBe(true);
    const raised = [name, 'pending-ledger', 'queue-age-analytics', 'errors-ledger', 'duration-ledger'];
    await ended(...raised, 'effect-age-analytics', 'unroutable', 'prune-lag-outbox', 'prune-lag-inbox');
    await ended(...databaseAlarms, ...keyAlarms);
    const { summary } = await checkTraffic(cloud, { invoices: 0, lanes: 1 }, 0);
    expect(summary.wrong).toEqual([]);
  });
});

async function waiting(QueueUrl: string): Promise<number> {
  const AttributeNames = ['ApproximateNumberOfMessages'] as const;
  const { Attributes } = await queues.send(
    new GetQueueAttributesCommand({ QueueUrl, AttributeNames: [...AttributeNames] }),
  );
  return Number(Attributes?.['ApproximateNumberOfMessages']);
}

describe('what a destination refuses, and what a consumer gives up', () => {
  it('raise the alarms of parked, blocked, orphaned and held events and of dead letters, until the limit is mended and the operator sends them again', async () => {
    const { seen, ended, told } = await watchAlarms(cloud, clients);
    const notifications = { QueueUrl: output('NotificationsQueueUrl') };
    const ledger = { QueueUrl: output('LedgerQueueUrl') };
    const original = await attributesOf(ledger.QueueUrl);
    const pay = async (invoice: string, amountMinor: number): Promise<void> => {
      const { status } = await postJson(`${apiUrl}/invoices/${invoice}/payments`, randomUUID(), { amountMinor });
      expect(status).toBe(201);
    };
    const redrivePolicy = JSON.parse(original['RedrivePolicy'] ?? '{}') as object;
    const restore = async (): Promise<void> => {
      const { VisibilityTimeout = '30', RedrivePolicy = '' } = original;
      await set(ledger.QueueUrl, { VisibilityTimeout, RedrivePolicy });
      await serveQueue(lambda, output('LedgerFunctionName'), true);
    };
    const raised = new Map([
      ['parked-notifications', 'parked'],
      ['parked-ledger', 'parked'],
      ['blocked-ledger', 'blocked'],
      ['orphaned-ledger', 'blocked'],
      ['gap-ledger', 'held'],
      ['dead-letters-ledger', 'dead-letters'],
    ]);
    let id: string;
    let mend = async (): Promise<void> => {};
    // Somebody lowers the limit of one queue; the consumer of the other receives, and never acknowledges.
    await serveQueue(lambda, output('LedgerFunctionName'), false);
    await set(notifications.QueueUrl, { MaximumMessageSize: '1024' });
    await set(ledger.QueueUrl, {
      VisibilityTimeout: '0',
      RedrivePolicy: JSON.stringify({ ...redrivePolicy, maxReceiveCount: 1 }),
    });
    try {
      id = await sendInvoice(apiUrl);
      await until(
        'the message is a dead letter',
        async () => {
          await queues.send(new ReceiveMessageCommand(ledger));
          const dead = await attributesOf(output('LedgerDeadLetterQueueUrl'));
          return dead['ApproximateNumberOfMessages'] === '1' ? true : undefined;
        },
        20_000,
      );
      // What follows the dead letter is held, for one before it is missing.
      await restore();
      await pay(id, 100);
      await until('the payment is held', async () => (await facts()).held[0], 20_000);
      // Of another invoice the ledger's queue refuses the first event, and what follows it waits behind it.
      await set(ledger.QueueUrl, { MaximumMessageSize: '1024' });
      const blocked = await sendInvoice(apiUrl);
      await pay(blocked, 100);
      await pay(blocked, 150);
      const orphaned = await sendInvoice(apiUrl);
      await pay(orphaned, 100);
      mend = await orphan(cloud, orphaned);
      await seen(...raised.keys())();
      for (const [alarm, runbook] of raised) {
        expect(await told(alarm, 'ALARM')).toMatchObject({
          AlarmDescription: expect.stringMatching(`Runbook: docs/runbooks/${runbook}.md`),
        });
      }
    } finally {
      await mend();
      for (const { QueueUrl } of [notifications, ledger]) await set(QueueUrl, { MaximumMessageSize: '1048576' });
      await restore();
    }
    const reason = ['--reason', 'the limit is mended', '--yes'];
    const parked = await command('ops', 'parked', 'list', '--json');
    const found = JSON.parse(parked.stdout).result.parked as { position: unknown }[];
    expect(found).toHaveLength(5);
    for (const { position } of found) {
      expect(await command('ops', 'redrive', String(position), ...reason)).toMatchObject({ code: 0 });
    }
    expect(await command('ops', 'dead-letters', 'redrive', 'ledger', ...reason)).toMatchObject({ code: 0 });
    expect(await arrived()).toBe(true);
    expect((await facts()).ledger.map(({ invoiceId }) => invoiceId)).toContain(id);
    await ended(...raised.keys());
    const { summary } = await checkTraffic(cloud, { invoices: 0, lanes: 1 }, 0);
    expect(summary.wrong).toEqual([]);
  });

  const attributesOf = async (QueueUrl: string): Promise<Record<string, string>> =>
    (await queues.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }))).Attributes ?? {};
  const set = async (QueueUrl: string, Attributes: Record<string, string>) =>
    queues.send(new SetQueueAttributesCommand({ QueueUrl, Attributes }));
});

// Beside the monitor, for janitor and API measure what these alarms are raised by.
unfinishedTests(cloud, clients);

describe.concurrent('a monitor that is dead', () => {
  it('raises the alarms on what it measures, because nobody knows then, and ends them when it is back', async () => {
    const told = await listen(queues, topics, output('AlarmTopicArn'));
    const FunctionName = output('MonitorFunctionName');
    await lambda.send(new PutFunctionConcurrencyCommand({ FunctionName, ReservedConcurrentExecutions: 0 }));
    const concerned = ['relay-silent', 'oldest-pending-age-analytics'];
    const refused = 'throttles-monitor';
    try {
      for (const alarm of concerned) {
        const { NewStateReason } = await told(alarm, 'ALARM');
        expect(NewStateReason).toContain('missing (treated as breaching)');
      }
      await told(refused, 'ALARM');
    } finally {
      await lambda.send(new DeleteFunctionConcurrencyCommand({ FunctionName }));
    }
    await Promise.all([...concerned, refused].map((alarm) => told(alarm, 'OK')));
  });
});

erasureTests(cloud);
