import middify, { type MiddyfiedHandler } from '@middy/core';
import type { Context, EventBridgeEvent, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';
import { revalidate, transaction } from '../database/index.ts';
import type { CompiledCatalogue } from '../events/index.ts';
import { processBatch } from './batch.ts';
import { type ConsumerOptions, consumerRules } from './consumer-options.ts';
import { drain, drainable, retryWhatIsKnownNow } from './drain.ts';
import { ConsumerChangedError, NotABatchError, NotAppliedError } from './errors.ts';
import { isEventBridgeEvent, recordOf } from './event-bridge.ts';
import { classifyFailure } from './failure.ts';
import { type Deadline, type Invocation, startInvocation, type TimeMargins } from './invocation.ts';
import { outcomeReport } from './outcome-report.ts';
import { registerConsumer } from './register.ts';
import { inBatchSpan, messageSpans } from './trace.ts';
import type { Aggregate, Work } from './work.ts';

/** What a consumer's function is invoked with: a batch of SQS, an event of EventBridge, or a schedule's request to drain. */
export type ConsumerInput = SQSEvent | EventBridgeEvent<string, unknown> | DrainRequest;

/** Asks a consumer's function to go on with what is held; for a schedule. */
export interface DrainRequest {
  readonly action: 'drain-held';
}

const DEFAULT_MARGINS: TimeMargins = { startMs: 3000, stopMs: 500 };
/** After a batch: no longer than this, because its messages are acknowledged afterwards. */
const DRAIN_MS = 2000;
/** A pool that was used within this time is not asked whether it still works. Milliseconds. */
const IDLE_MS = 5_000;
/** How often a process looks for held events that nothing in its batches has pointed at. */
const LOOK_EVERY_MS = 10_000;
/** How often it looks for those that it knows and another process did not: while a deployment goes on, one of before may hold some at any time. */
const KNOWN_EVERY_MS = 300_000;

/**
 * A Lambda handler that applies each event once: of an SQS queue, FIFO or standard, or of EventBridge, with a queue between or without.
 * Turn on `ReportBatchItemFailures` at the event source of a queue, or a failed message is lost. Further middy middleware can
 * be added with `.use()`.
 *
 * ```ts
 * export const handler = eventConsumer({
 *   name: 'ledger', mode: 'strict', startingPoint: 'beginning', destination: 'ledger', catalogue, pool, log, metrics,
 *   handlers: {
 *     'invoice.issued': async (event, { tx }) => {
 *       await tx.query('insert into …', [event.data.invoiceId, event.data.totalMinor]);
 *     },
 *   },
 * });
 * ```
 *
 * @throws ConsumerOptionsError (`CONSUMER_OPTIONS`) at once. The handler rejects with NotABatchError (`NOT_A_BATCH`) and
 * ConsumerChangedError (`CONSUMER_CHANGED`), so that the function's error alarm shows them, and with NotAppliedError (`NOT_APPLIED`) for an event
 * that EventBridge handed over itself and that could not even be held; everything else is returned message by message.
 */
export function eventConsumer<const C extends CompiledCatalogue>(
  options: ConsumerOptions<C>,
): MiddyfiedHandler<ConsumerInput, SQSBatchResponse> {
  const consumer = consumerProcess(options);
  const handle = async (input: ConsumerInput, context: Context): Promise<SQSBatchResponse> => {
    if (isDrainRequest(input)) {
      await consumer.drainAll(context);
      return response([]);
    }
    if (isEventBridgeEvent(input)) {
      const returned = await consumer.process([recordOf(input)], context, true);
      if (returned.length > 0) throw new NotAppliedError();
      return response([]);
    }
    return response(await consumer.process(recordsOf(input), context));
  };
  // middy's own early time-out would answer for the whole batch; `startInvocation` does it message by message.
  return middify<ConsumerInput, SQSBatchResponse>({ timeoutEarlyInMillis: 0 }).handler(handle);
}

/**
 * Goes on with everything that is held and may be applied now, for as long as `deadline` leaves time: events behind a gap that has closed,
 * failed ones whose pause is over, what an operator released. A consumer does a little of it after each batch; this is
 * for a schedule or a program. A consumer's own function does the same when it is invoked with `{ "action": "drain-held" }`.
 *
 * @returns how many events were taken out
 * @throws ConsumerOptionsError (`CONSUMER_OPTIONS`), ConsumerChangedError (`CONSUMER_CHANGED`), and what the database throws
 * @example await drainHeld(options, { getRemainingTimeInMillis: () => 60_000 })
 */
export async function drainHeld<const C extends CompiledCatalogue>(
  options: ConsumerOptions<C>,
  deadline: Deadline,
): Promise<number> {
  return consumerProcess(options).drainAll(deadline);
}

/** What a process keeps of its consumer between invocations. */
function consumerProcess<const C extends CompiledCatalogue>(options: ConsumerOptions<C>) {
  const rules = consumerRules(options);
  const { consumer } = rules;
  const report = outcomeReport(consumer.name, options.log, options.metrics);
  const running = new Set<Invocation>();
  const monotonicMs = (): number => performance.now();
  let registered = false;
  let retriedAt = -Infinity;
  let lookedAt = -Infinity;
  let lookedUpTo: Aggregate | null = null;

  let usedAt = Date.now();

  /** Once per process, in the first invocation: when the module loads the database may be away. */
  const register = async (invocation: Invocation): Promise<void> => {
    // Connections that were idle for so long may be dead: the process was frozen, and the server or a firewall has let them go.
    if (Date.now() - usedAt > IDLE_MS) await Promise.race([revalidate(options.pool), invocation.abandoned]);
    if (registered) return;
    await Promise.race([transaction(invocation, (tx) => registerConsumer(tx, consumer)), invocation.abandoned]);
    registered = true;
  };

  const retryKnown = async (work: Work): Promise<void> => {
    const startedAt = monotonicMs();
    await Promise.race([retryWhatIsKnownNow(work), work.invocation.abandoned]);
    retriedAt = startedAt;
  };

  const during = async <T>(deadline: Deadline, direct: boolean, task: (work: Work) => Promise<T>): Promise<T> => {
    // What an earlier invocation of this process left behind when it was frozen would hold its connections for ever.
    for (const earlier of running) if (earlier.isOverdue()) earlier.abandon();
    const invocation = startInvocation(options.pool, deadline, options.margins ?? DEFAULT_MARGINS);
    const spans = messageSpans(consumer.name);
    running.add(invocation);
    try {
      return await task({
        ...rules,
        direct,
        invocation,
        report: spans.noting(report),
        spans,
        monotonicMs,
        waiting: new Map(),
      });
    } finally {
      usedAt = Date.now();
      spans.end();
      invocation.finish();
      running.delete(invocation);
    }
  };

  /** A little of what is held: what the batch has pointed at, and now and then what nobody points at. Never a reason to return a message. */
  const drainSome = async (work: Work): Promise<void> => {
    const until = monotonicMs() + DRAIN_MS;
    const mayGoOn = (inMs = 0): boolean => monotonicMs() + inMs < until;
    try {
      await drain(work, work.waiting.values(), { mayGoOn, waits: true });
      if (monotonicMs() - lookedAt < LOOK_EVERY_MS || !work.invocation.mayStart() || !mayGoOn()) return;
      lookedAt = monotonicMs();
      if (monotonicMs() - retriedAt >= KNOWN_EVERY_MS) await retryKnown(work);
      const found = await Promise.race([drainable(work, lookedUpTo), work.invocation.abandoned]);
      lookedUpTo = found.at(-1) ?? null;
      await drain(work, found, { mayGoOn });
    } catch (error) {
      report.notWritten(classifyFailure(error));
    }
  };

  return {
    /** The records to return. */
    process: (records: readonly SQSRecord[], deadline: Deadline, direct = false): Promise<readonly SQSRecord[]> =>
      inBatchSpan(consumer.name, records, () =>
        during(deadline, direct, async (work) => {
          try {
            await register(work.invocation);
          } catch (error) {
            if (error instanceof ConsumerChangedError) throw error;
            report.notRegistered(classifyFailure(error), records.length);
            if (!direct) report.wentBack(records);
            return records;
          }
          const returned = await processBatch(records, work);
          if (!direct) report.wentBack(returned);
          await drainSome(work);
          return returned;
        }),
      ),

    drainAll: (deadline: Deadline): Promise<number> =>
      during(deadline, false, async (work) => {
        await register(work.invocation);
        await retryKnown(work);
        let drained = 0;
        let after: Aggregate | null = null;
        while (work.invocation.mayStart()) {
          const found: Aggregate[] = await Promise.race([drainable(work, after), work.invocation.abandoned]);
          after = found.at(-1) ?? null;
          if (after === null) break;
          const taken = await drain(work, found);
          drained += taken;
        }
        return drained;
      }),
  };
}

function isDrainRequest(input: ConsumerInput): input is DrainRequest {
  return (input as Partial<DrainRequest> | null | undefined)?.action === 'drain-held';
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
