import pg from 'pg';
import type { Queryable } from '../../shared/database/index.ts';
import {
  type Message,
  type Publisher,
  type PublisherLimits,
  type PublishResult,
  type RelayOptions,
  runRelay,
} from '../../shared/outbox/index.ts';
import type { TestDatabase } from './database.ts';
import { recordingLog } from './recorders.ts';

interface TestDestination {
  readonly name: string;
  readonly kind: 'sqs-fifo' | 'sqs' | 'eventbridge';
  readonly group_id?: 'aggregate-id' | 'aggregate-type-and-id';
  readonly max_bytes?: number;
}

interface TestEventType {
  readonly type: string;
  readonly aggregate_type?: string;
  readonly destinations?: readonly string[];
  readonly schema_version?: number;
  readonly when_parked?: 'block' | 'skip';
}

export const QUEUE: TestDestination = { name: 'queue', kind: 'sqs-fifo' };

/** As it was before the first event, with no catalogue and nobody at work. As the owner. */
export async function emptyOutbox(owner: Queryable): Promise<void> {
  await owner.query(
    `truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay, outbox.audit, outbox.route, outbox.replay, outbox.destination
     restart identity`,
  );
  await owner.query('update outbox.partition set lease_owner = null, lease_expires_at = null');
}

/** Installs a small catalogue: `thing.happened` and what else the test names, to one FIFO queue unless it says otherwise. */
export async function installCatalogue(
  db: Queryable,
  eventTypes: readonly TestEventType[] = [{ type: 'thing.happened' }],
  destinations: readonly TestDestination[] = [QUEUE],
): Promise<void> {
  await db.query('select outbox.install_catalogue($1)', [
    JSON.stringify({
      source: '/test',
      destinations: destinations.map((it) => ({ group_id: 'aggregate-id', max_bytes: 1_048_576, ...it })),
      event_types: eventTypes.map((it) => ({
        schema_version: 1,
        aggregate_type: 'thing',
        when_parked: 'block',
        destinations: destinations.map((destination) => destination.name),
        ...it,
      })),
    }),
  ]);
}

/** An event as `outbox.append` takes it. */
export function thing(
  aggregateId: string,
  data: unknown = {},
  more: Readonly<Record<string, unknown>> = {},
): Record<string, unknown> {
  return { type: 'thing.happened', aggregate_type: 'thing', aggregate_id: aggregateId, data, ...more };
}

/** Appends through plain SQL; sequences in the order of the events. */
export async function append(db: Queryable, ...events: readonly unknown[]): Promise<bigint[]> {
  const { rows } = await db.query('select id, sequence from outbox.append($1)', [JSON.stringify(events)]);
  return rows.map((row) => BigInt(row.sequence));
}

export interface RecordingPublisher extends Publisher {
  /** Every message that was accepted, in the order of acceptance. */
  readonly accepted: Message[];
  /** Every call, with the messages that it carried. */
  readonly calls: (readonly Message[])[];
}

export type Answer = (message: Message, call: readonly Message[]) => PublishResult | Promise<PublishResult>;

export const ACCEPTED: PublishResult = { ok: true, messageId: 'm' };

export function refused(code: string): PublishResult {
  return { ok: false, code, reason: 'as the test wants it' };
}

/** A queue in memory that answers as the test says; an answer that throws fails the whole call. */
export function recordingPublisher(
  answer: Answer = () => ACCEPTED,
  limits: Partial<PublisherLimits> = {},
): RecordingPublisher {
  const accepted: Message[] = [];
  const calls: (readonly Message[])[] = [];
  return {
    accepted,
    calls,
    limits: { entries: 10, bytes: 1_048_576, timeoutMs: 5_000, ...limits },
    preflight: async () => {},
    async publish(messages) {
      calls.push(messages);
      const results: PublishResult[] = [];
      for (const message of messages) results.push(await answer(message, messages));
      for (const [index, message] of messages.entries()) {
        if (results[index]?.ok === true) accepted.push(message);
      }
      return results;
    },
    close: () => {},
  };
}

/**
 * Options of a relay that drains one test database and ends. A retry comes after a minute, without chance: it is due again when the
 * test moves `due_at`, never because the machine was slow.
 */
export function relayOptions(
  database: TestDatabase,
  publishers: Readonly<Record<string, Publisher>>,
  more: Partial<RelayOptions> = {},
): RelayOptions {
  return {
    connect: async () => {
      const { host, port, database: name, user, ...auth } = database.config('sealed_relay');
      const client = new pg.Client({
        host,
        port,
        database: name,
        user,
        password: 'password' in auth ? auth.password : '',
      });
      await client.connect();
      return client;
    },
    publishers,
    log: recordingLog(),
    slot: 'test',
    mode: 'drain',
    policy: { attempts: 12, baseMs: 60_000, capMs: 300_000 },
    random: () => 1,
    ...more,
  };
}

/** Runs a relay until nothing is due. */
export async function drain(
  database: TestDatabase,
  publisher: Publisher,
  more: Partial<RelayOptions> = {},
): ReturnType<typeof runRelay> {
  return runRelay(relayOptions(database, { queue: publisher }, more));
}

/** `aggregate#sequence` of messages, in order. */
export function places(messages: readonly Message[]): string[] {
  return messages.map((message) => {
    const envelope = JSON.parse(message.body);
    return `${envelope.subject}#${envelope.sequence}`;
  });
}

/** How many messages of an aggregate came for the first time after one with a higher sequence. */
export function orderBreaks(messages: readonly { readonly body: string }[]): number {
  const highest = new Map<string, bigint>();
  const seen = new Set<string>();
  let breaks = 0;
  for (const { body } of messages) {
    const { id, sequence, partitionkey } = JSON.parse(body);
    if (seen.has(id)) continue;
    seen.add(id);
    const last = highest.get(partitionkey) ?? 0n;
    if (BigInt(sequence) < last) breaks += 1;
    else highest.set(partitionkey, BigInt(sequence));
  }
  return breaks;
}
