import type { SQSRecord } from 'aws-lambda';
import type pg from 'pg';
import type { CompiledCatalogue } from '../../shared/events/index.ts';
import { handlerContext } from '../../shared/inbox/handler-context.ts';
import { type AnySteps, stepsOf } from '../../shared/inbox/handlers.ts';
import { readEvent } from '../../shared/inbox/read-event.ts';

/** The same handlers on the same messages, which are read and validated, `together` in each transaction, without dedupe and order. */
export function bareConsumer(
  pool: pg.Pool,
  catalogue: CompiledCatalogue,
  handlers: object,
  together: number,
): (records: readonly SQSRecord[]) => Promise<void> {
  const steps = new Map<string, AnySteps>(
    Object.entries(handlers).map(([type, handler]) => [type, stepsOf(handler as never)]),
  );
  const transaction = async (records: readonly SQSRecord[]): Promise<void> => {
    const client = await pool.connect();
    try {
      await client.query('begin');
      for (const { body } of records) {
        const read = readEvent(catalogue, body);
        if (!read.ok) throw new Error(read.failure.reason);
        await steps.get(read.event.type)?.handle(read.event, handlerContext(read.event, client, undefined));
      }
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
