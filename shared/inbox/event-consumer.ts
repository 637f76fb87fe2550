import middify, { type MiddyfiedHandler } from '@middy/core';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import type pg from 'pg';
import { transaction } from '../database/index.ts';
import type { CompiledCatalogue } from '../events/index.ts';
import type { Log, Metrics } from '../telemetry/index.ts';
import { processBatch } from './batch.ts';
import { ConsumerChangedError, ConsumerOptionsError, NotABatchError } from './errors.ts';
import { classifyFailure } from './failure.ts';
import { type AnySteps, type Handlers, stepsOf } from './handlers.ts';
import { type Invocation, startInvocation, type TimeMargins } from './invocation.ts';
import type { StartingPoint } from './order.ts';
import { outcomeReport } from './outcome-report.ts';
import { type ConsumerIdentity, registerConsumer } from './register.ts';

export type ConsumerOptions<C extends CompiledCatalogue> = {
  /** Under this name dedupe rows and positions are kept: `[a-z][a-z0-9-]{0,62}`. It never changes. */
  readonly name: string;
  readonly catalogue: C;
  readonly handlers: Handlers<C>;
  /** As many groups run at once as it has connections (`max`). */
  readonly pool: pg.Pool;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Default: no message is started in the last 3,000 ms, and none runs into the last 500 ms. */
  readonly margins?: TimeMargins;
} & (
  | { readonly mode: 'any' }
  /** A strict consumer says where it starts on an aggregate that it has not seen. */
  | { readonly mode: 'strict'; readonly startingPoint: StartingPoint }
);

const DEFAULT_MARGINS: TimeMargins = { startMs: 3000, stopMs: 500 };
const NAME = /^[a-z][a-z0-9-]{0,62}$/;

/**
 * A Lambda handler that applies each event of an SQS queue, FIFO or standard, once. Turn on `ReportBatchItemFailures` at the
 * event source, or a failed message is lost. Further middy middleware can be added with `.use()`.
 *
 * ```ts
 * export const handler = eventConsumer({
 *   name: 'ledger', mode: 'strict', startingPoint: 'beginning', catalogue, pool, log, metrics,
 *   handlers: {
 *     'invoice.issued': async (event, { tx }) => {
 *       await tx.query('insert into …', [event.data.invoiceId, event.data.totalMinor]);
 *     },
 *   },
 * });
 * ```
 *
 * @throws ConsumerOptionsError (`CONSUMER_OPTIONS`) at once. The handler rejects with NotABatchError (`NOT_A_BATCH`) and
 * ConsumerChangedError (`CONSUMER_CHANGED`), so that the function's error alarm shows them; everything else is returned
 * message by message.
 */
export function eventConsumer<const C extends CompiledCatalogue>(
  options: ConsumerOptions<C>,
): MiddyfiedHandler<SQSEvent, SQSBatchResponse> {
  const { name, catalogue, pool } = options;
  const handlers = checkedHandlers(name, catalogue, options.handlers);
  const consumer: ConsumerIdentity = {
    name,
    mode: options.mode,
    startingPoint: options.mode === 'strict' ? options.startingPoint : 'first-seen',
  };
  const report = outcomeReport(name, options.log, options.metrics);
  const running = new Set<Invocation>();
  let registered = false;

  /** Once per process, in the first invocation: when the module loads the database may be away. */
  const register = async (invocation: Invocation): Promise<void> => {
    if (registered) return;
    await Promise.race([transaction(invocation, (tx) => registerConsumer(tx, consumer)), invocation.abandoned]);
    registered = true;
  };

  const handle = async (event: SQSEvent, context: Context): Promise<SQSBatchResponse> => {
    const records = recordsOf(event);
    // What an earlier invocation of this process left behind when it was frozen would hold its connections for ever.
    for (const earlier of running) if (earlier.isOverdue()) earlier.abandon();
    const invocation = startInvocation(pool, context, options.margins ?? DEFAULT_MARGINS);
    running.add(invocation);
    try {
      try {
        await register(invocation);
      } catch (error) {
        if (error instanceof ConsumerChangedError) throw error;
        report.notRegistered(classifyFailure(error), records.length);
        return response(records);
      }
      const concurrency = pool.options.max;
      const monotonicMs = (): number => performance.now();
      return response(
        await processBatch(records, {
          consumer,
          catalogue,
          stepsOf: (type) => handlers.get(type),
          invocation,
          concurrency,
          report,
          monotonicMs,
        }),
      );
    } finally {
      invocation.finish();
      running.delete(invocation);
    }
  };

  // middy's own early time-out would answer for the whole batch; `startInvocation` does it message by message.
  return middify<SQSEvent, SQSBatchResponse>({ timeoutEarlyInMillis: 0 }).handler(handle);
}

function checkedHandlers<C extends CompiledCatalogue>(
  name: string,
  catalogue: C,
  handlers: Handlers<C>,
): ReadonlyMap<string, AnySteps> {
  if (!NAME.test(name)) {
    throw new ConsumerOptionsError(`name ${JSON.stringify(name)} must be 1-63 of a-z 0-9 - and start with a letter.`);
  }
  for (const type of Object.keys(handlers)) {
    if (!Object.hasOwn(catalogue.events, type)) {
      throw new ConsumerOptionsError(`consumer ${name} has a handler for ${type}, which its catalogue does not hold.`);
    }
  }
  // The map forgets which data belongs to which type; `readEvent` has validated it by then.
  return new Map(Object.entries(handlers).map(([type, handler]) => [type, stepsOf(handler as never)]));
}

/** Lambda takes a null or empty id for "the whole batch failed": so each record must have one. */
function recordsOf(event: SQSEvent): readonly SQSRecord[] {
  const records = (event as Partial<SQSEvent> | null | undefined)?.Records;
  if (!Array.isArray(records)) throw new NotABatchError('it has no Records');
  for (const record of records as readonly Partial<SQSRecord>[]) {
    if (typeof record.messageId !== 'string' || record.messageId === '') {
      throw new NotABatchError('a record has no messageId');
    }
    if (
      typeof record.body !== 'string' ||
      typeof record.eventSourceARN !== 'string' ||
      record.attributes === undefined
    ) {
      throw new NotABatchError('a record has no body, attributes or eventSourceARN');
    }
  }
  return records;
}

function response(returned: readonly SQSRecord[]): SQSBatchResponse {
  return { batchItemFailures: returned.map(({ messageId }) => ({ itemIdentifier: messageId })) };
}
