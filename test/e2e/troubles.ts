import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { DisableKeyCommand, EnableKeyCommand, KMSClient } from '@aws-sdk/client-kms';
import {
  InvokeCommand,
  type LambdaClient,
  ListEventSourceMappingsCommand,
  UpdateEventSourceMappingCommand,
} from '@aws-sdk/client-lambda';
import { DeleteMessageCommand, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { definition } from '../../functions/sample/catalogue/definition.ts';
import { invoiceBody, postJson } from '../../local/check/traffic.ts';
import type { LocalCloud } from '../../local/cloud.ts';
import { asSuperuser } from '../../local/postgres.ts';
import { type CatalogueRows, catalogueRows } from '../../shared/events/index.ts';
import { standardRecord } from '../support/sqs-batch.ts';
import { killFunction } from './function-process.ts';
import { until } from './until.ts';

/** Resolves when somebody has seen what the trouble leads to; the trouble then ends. */
export type Seen = () => Promise<void>;

/** Above what the local alarms allow: percent of 200 connections, and transactions that a snapshot outlives and that keep vacuum from freezing. */
const CONNECTIONS = 82;
const TRANSACTIONS = 155_000;

/**
 * Sessions that nobody closes: one with a transaction, one with a snapshot that others' transactions pass by, and many that do nothing. When they are closed, every
 * database of the server is frozen, which autovacuum would do by and by.
 */
export async function crowdDatabase({ database }: LocalCloud, seen: Seen): Promise<void> {
  const opened = Promise.withResolvers<void>();
  const over = Promise.withResolvers<void>();
  const session = async (...statements: readonly string[]): Promise<void> =>
    asSuperuser(database, database.name, async (client) => {
      for (const statement of statements) await client.query(statement);
      await over.promise;
    });
  const sessions = Promise.all([
    session('begin', 'select 1'),
    asSuperuser(database, database.name, async (client) => {
      await client.query('begin isolation level repeatable read');
      await client.query('select 1');
      opened.resolve();
      await over.promise;
    }),
    ...Array.from({ length: CONNECTIONS }, async () => session()),
  ]);
  const passBy = async (): Promise<void> => {
    await opened.promise;
    await asSuperuser(database, database.name, async (client) =>
      client.query(
        `do $$ begin for number in 1..${TRANSACTIONS} loop perform pg_current_xact_id(); commit; end loop; end $$`,
      ),
    );
    await seen();
  };
  try {
    // Sessions end only when they are told to, or fail.
    await Promise.race([passBy(), sessions]);
  } finally {
    over.resolve();
    await sessions;
  }
  await freeze(database);
}

/** Also the database that nobody can connect to. */
async function freeze(database: LocalCloud['database']): Promise<void> {
  const allow = async (isAllowed: boolean): Promise<unknown> =>
    asSuperuser(database, database.name, async (db) =>
      db.query(`alter database template0 allow_connections ${String(isAllowed)}`),
    );
  await allow(true);
  for (const name of ['template0', 'template1', 'postgres', database.name])
    await asSuperuser(database, name, async (db) => db.query('vacuum (freeze)'));
  await allow(false);
}

/**
 * Has a consumer wait for a lock until its time is up, again and again. A new process enters itself in `inbox.consumer`; who reads that, as the monitor
 * does, is not held up.
 */
export async function slowDown(
  { database }: LocalCloud,
  lambda: LambdaClient,
  FunctionName: string,
  seen: Seen,
): Promise<void> {
  await asSuperuser(database, database.name, async (client) => {
    await client.query('begin');
    await client.query('lock table inbox.consumer in exclusive mode');
    killFunction(FunctionName);
    const over = new AbortController();
    const invoke = async (afterMs: number): Promise<void> => {
      await delay(afterMs);
      while (!over.signal.aborted)
        await lambda.send(new InvokeCommand({ FunctionName, Payload: '{"action":"drain-held"}' }));
    };
    // Each takes five seconds: two of them end in different measurements.
    const invoking = Promise.all([invoke(0), invoke(2_500)]);
    try {
      await Promise.race([seen(), invoking]);
    } finally {
      over.abort();
      await client.query('rollback');
      await invoking;
    }
  });
}

/** Disables the vault's KMS key, lets requests meet an API that has no key in memory, and the janitor a canary that is due and a branch key that is old. */
export async function disableKey({ client, apiUrl, outputs, database }: LocalCloud, seen: Seen): Promise<void> {
  const kms = new KMSClient(client);
  const KeyId = outputs['SealingKeyArn'];
  await kms.send(new DisableKeyCommand({ KeyId }));
  await asSuperuser(database, database.name, async (db) => {
    await db.query(`update vault.canary set opened_at = opened_at - interval '3 days'`);
    await db.query(`update vault.branch_key set created_at = created_at - interval '100 days' where class = 'bank'`);
  });
  const over = new AbortController();
  const ask = async (): Promise<void> => {
    while (!over.signal.aborted) {
      killFunction(outputs['ApiFunctionName'] ?? '');
      const { status } = await postJson(`${apiUrl}/invoices`, randomUUID(), invoiceBody(1));
      if (status < 500) throw new Error(`an API without a key answered with ${status}`);
      await delay(500);
    }
  };
  const asking = ask();
  try {
    await Promise.race([seen(), asking]);
  } finally {
    over.abort();
    try {
      await asking;
    } finally {
      await kms.send(new EnableKeyCommand({ KeyId }));
      kms.destroy();
    }
  }
}

/** How old an event is late, by the local alarm. Milliseconds. */
const LATE_MS = 10_000;

/** Hands a queue's messages to analytics when they are old, one after the other, as its event source would that nobody has turned on. */
export async function serveLate({ client, outputs }: LocalCloud, lambda: LambdaClient, seen: Seen): Promise<void> {
  const queues = new SQSClient({ ...client, useQueueUrlAsEndpoint: false });
  const QueueUrl = outputs['AnalyticsQueueUrl'];
  const FunctionName = outputs['AnalyticsFunctionName'];
  const over = new AbortController();
  const serve = async (): Promise<void> => {
    await delay(LATE_MS);
    while (!over.signal.aborted) {
      const { Messages: [message] = [] } = await queues.send(new ReceiveMessageCommand({ QueueUrl }));
      if (message === undefined) return;
      const Payload = JSON.stringify({ Records: [standardRecord(message.Body ?? '', undefined, message.MessageId)] });
      const answer = await lambda.send(new InvokeCommand({ FunctionName, Payload }));
      const told = Buffer.from(answer.Payload ?? []).toString();
      if (JSON.parse(told).batchItemFailures?.length !== 0)
        throw new Error(`analytics did not apply its event: ${told}`);
      await queues.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: message.ReceiptHandle }));
      await delay(1_000);
    }
  };
  const serving = serve();
  try {
    await Promise.all([seen().finally(() => over.abort()), serving]);
  } finally {
    queues.destroy();
  }
}

/** Deploys a catalogue without a destination for which events wait, and then the whole one again. */
export async function withoutDestination({ database }: LocalCloud, name: string, seen: Seen): Promise<void> {
  const install = async (rows: CatalogueRows): Promise<unknown> =>
    asSuperuser(database, database.name, async (db) =>
      db.query('select outbox.install_catalogue($1)', [JSON.stringify(rows)]),
    );
  const whole = catalogueRows(definition);
  await install({
    ...whole,
    destinations: whole.destinations.filter((destination) => destination.name !== name),
    event_types: whole.event_types.map((type) => ({
      ...type,
      destinations: type.destinations.filter((destination) => destination !== name),
    })),
  });
  try {
    await seen();
  } finally {
    await install(whole);
  }
}

/** A relay that has just found an event may look at its aggregate once more, and lets go what it finds blocked behind nothing. */
const LOOKED_AT_MS = 2_000;

/** Marks by hand the parked head of an invoice, behind which others wait, as done with; resolves with a way back. */
export async function orphan({ database }: LocalCloud, invoice: string): Promise<() => Promise<void>> {
  const isBlocked = async (): Promise<true | undefined> =>
    asSuperuser(database, database.name, async (db) => {
      const { rowCount } = await db.query(
        `select from outbox.delivery d join outbox.destination n on n.number = d.destination
          where n.name = 'ledger' and d.state = 'blocked' and d.aggregate_key = outbox.aggregate_key('invoice', $1)`,
        [invoice],
      );
      return rowCount === 0 ? undefined : true;
    });
  const update = async (from: string, to: string): Promise<number | null> =>
    asSuperuser(database, database.name, async (db) => {
      const { rowCount } = await db.query(
        `update outbox.delivery d set state = $3::outbox.delivery_state
           from outbox.destination n
          where n.number = d.destination and n.name = 'ledger' and d.state = $2::outbox.delivery_state and d.sequence = 1
            and d.aggregate_key = outbox.aggregate_key('invoice', $1)`,
        [invoice, from, to],
      );
      return rowCount;
    });
  await until('an event waits behind a parked one', isBlocked, 20_000);
  await delay(LOOKED_AT_MS);
  if ((await update('parked', 'set_aside')) !== 1) throw new Error('the head is not parked any more');
  return async () => void (await update('set_aside', 'parked'));
}

/** Lets a function's queue alone, or serves it again. */
export async function serveQueue(lambda: LambdaClient, FunctionName: string, Enabled: boolean): Promise<void> {
  const { EventSourceMappings = [] } = await lambda.send(new ListEventSourceMappingsCommand({ FunctionName }));
  for (const { UUID } of EventSourceMappings) {
    await lambda.send(new UpdateEventSourceMappingCommand({ UUID, Enabled }));
  }
}
