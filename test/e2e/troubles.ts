import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { DisableKeyCommand, EnableKeyCommand, KMSClient } from '@aws-sdk/client-kms';
import {
  InvokeCommand,
  type LambdaClient,
  ListEventSourceMappingsCommand,
  UpdateEventSourceMappingCommand,
} from '@aws-sdk/client-lambda';
import { invoiceBody, postJson } from '../../local/check/traffic.ts';
import type { LocalCloud } from '../../local/cloud.ts';
import { asSuperuser } from '../../local/postgres.ts';
import { killFunction } from './function-process.ts';

/** Resolves when somebody has seen what the trouble leads to; the trouble then ends. */
type Seen = () => Promise<void>;

/** Above what the local alarms allow: percent of 200 connections, and transactions that a snapshot outlives. */
const CONNECTIONS = 82;
const TRANSACTIONS = 2_100;

/** Sessions that nobody closes: one with a transaction, one with a snapshot that others' transactions pass by, and many that do nothing. */
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

/** Disables the vault's KMS key, and lets requests meet an API that has no key in memory. */
export async function disableKey({ client, apiUrl, outputs }: LocalCloud, seen: Seen): Promise<void> {
  const kms = new KMSClient(client);
  const KeyId = outputs['SealingKeyArn'];
  await kms.send(new DisableKeyCommand({ KeyId }));
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

/** Lets a function's queue alone, or serves it again. */
export async function serveQueue(lambda: LambdaClient, FunctionName: string, Enabled: boolean): Promise<void> {
  const { EventSourceMappings = [] } = await lambda.send(new ListEventSourceMappingsCommand({ FunctionName }));
  for (const { UUID } of EventSourceMappings) {
    await lambda.send(new UpdateEventSourceMappingCommand({ UUID, Enabled }));
  }
}
