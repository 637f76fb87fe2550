import type { SQSRecord } from 'aws-lambda';
import type pg from 'pg';
import type { CompiledCatalogue } from '../../shared/events/index.ts';
import { handle } from '../../shared/inbox/apply.ts';
import { handlerCalls } from '../../shared/inbox/handler-calls.ts';
import { stepsOf } from '../../shared/inbox/handlers.ts';
import type { EventMessage } from '../../shared/inbox/message.ts';
import { readEvent } from '../../shared/inbox/read-event.ts';

/**
 * The same handlers on the same messages, which are read and validated, `together` in each transaction, without dedupe and order.
 *
 * @param also done at the end of each transaction
 */
export function bareConsumer(
  pool: pg.Pool,
  catalogue: CompiledCatalogue,
  handlers: object,
  together: number,
  also: (client: pg.PoolClient, messages: readonly EventMessage[]) => Promise<void> = async () => {},
): (records: readonly SQSRecord[]) => Promise<void> {
  const steps = new Map(Object.entries(handlers).map(([type, handler]) => [type, stepsOf(handler as never)]));
  const transaction = async (records: readonly SQSRecord[]): Promise<void> => {
    const client = await pool.connect();
    try {
      await client.query('begin');
      const messages = records.map((record): EventMessage => {
        const read = readEvent(catalogue, record.body);
        if (!read.ok) throw new Error(read.failure.reason);
        return { kind: 'event', record, event: read.event, steps: steps.get(read.event.type), passedAs: 'ignored' };
      });
      for (const call of handlerCalls(messages)) await handle(call, client, undefined);
      await also(client, messages);
      await client.query('commit');
    } finally {
      client.release();
    }
  };
  return async (records) => {
    const bundles = Array.from({ length: Math.ceil(records.length / together) }, (_, n) =>
      records.slice(n * together, (n + 1) * together),
    );
    await Promise.all(bundles.map(transaction));
  };
}

/**
 * What dedupe and order write, and nothing else: a dedupe row for each event, and the position of each aggregate, by two statements that are planned
 * once. Nothing is locked in order, looked at or decided.
 */
export async function plainWrites(client: pg.PoolClient, messages: readonly EventMessage[]): Promise<void> {
  await client.query({
    name: 'plain-dedupe',
    text: `insert into inbox.processed_event (consumer, event_id, event_time)
           select 'plain', e.id, e.time from unnest($1::uuid[], $2::timestamptz[]) e (id, time)`,
    values: [messages.map(({ event }) => event.id), messages.map(({ event }) => event.time)],
  });
  await client.query({
    name: 'plain-position',
    text: `insert into inbox.stream_position (consumer, aggregate_type, aggregate_id, sequence)
           select 'plain', 'invoice', a.id, a.sequence from unnest($1::text[], $2::bigint[]) a (id, sequence)
               on conflict (consumer, aggregate_type, aggregate_id) do update set sequence = excluded.sequence`,
    values: [messages.map(({ event }) => event.aggregateId), messages.map(({ event }) => event.sequence.toString())],
  });
}
