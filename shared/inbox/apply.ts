import type pg from 'pg';
import { isStaleWriter, transaction } from '../database/index.ts';
import type { ReceivedEvent } from '../events/index.ts';
import { BeforeMissingError, HandlerFailedError } from './errors.ts';
import { isServerAnswer } from './failure.ts';
import { beforeContext, handlerContext } from './handler-context.ts';
import { type HandlerCall, handlerCalls } from './handler-calls.ts';
import type { AnySteps } from './handlers.ts';
import { asItCame, hold, type HeldReason, outOfOrder } from './hold.ts';
import type { EventMessage, UnreadableMessage } from './message.ts';
import { type Taken, takeEvents, wouldApply } from './take.ts';
import { assertOpen, takenTransaction } from './taken-transaction.ts';
import { noteWaiting, type Work } from './work.ts';

/**
 * What became of a message that can be acknowledged.
 * - `effect`: its handler's work is committed
 * - `repeat`: it had been applied before, or is held already
 * - `ignored`: the consumer has no handler for its type
 * - `too-old`: no upcaster takes its version, and the type's `older` is `ignore`
 * - `older`: mode `latest`, and a newer one was applied
 * - `not-accepted`: it belongs to a replay that the consumer takes no part in
 * - `held`: it is in `inbox.held_event`
 */
export type Applied =
  | { readonly kind: 'effect'; readonly ageSeconds: number }
  | { readonly kind: 'repeat' }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'too-old' }
  | { readonly kind: 'older' }
  | { readonly kind: 'not-accepted' }
  | { readonly kind: 'held'; readonly reason: HeldReason; readonly expected?: bigint };

/**
 * Applies events in one transaction: dedupe rows, positions, what must be held, and the effects of the handlers, in the order given. All
 * of it is committed or nothing.
 *
 * @param before what the `before` step answered; a message that has one comes alone
 * @throws what `classifyFailure` sorts
 */
export async function applyTogether(
  work: Work,
  client: pg.PoolClient,
  messages: readonly EventMessage[],
  before?: BeforeAnswer,
): Promise<readonly Applied[]> {
  const events = messages.map(({ event }) => event);
  const take = (tx: pg.PoolClient): Promise<readonly Taken[]> => takeEvents(tx, work, events);
  return takenTransaction(client, take, async (taken) => {
    const takenAt = work.monotonicMs();
    const outcomes = taken.map((row, index) => outcomeOf(row, messages[index] as EventMessage));
    await holdThose(work, client, messages, outcomes);
    const handled = messages.filter(({ steps }, index) => steps !== undefined && taken[index]?.outcome === 'apply');
    // It was out of order, or held, when its `before` was to run, and no longer is.
    if (before === undefined && handled.some(({ steps }) => steps?.before !== undefined))
      throw new BeforeMissingError();
    for (const call of handlerCalls(handled)) await runHandler(work, call, client, before?.answer);
    const waited = (work.monotonicMs() - takenAt) / 1000;
    noteWhatWaits(work, messages, taken);
    const effects = new Set(handled);
    return messages.map((message, index) =>
      effects.has(message)
        ? { kind: 'effect', ageSeconds: Math.max(0, (taken[index]?.age ?? 0) + waited) }
        : (outcomes[index] as Applied),
    );
  });
}

/** What is held of an aggregate may be its turn now: it was there, or it is one of these and another that came behind it has closed its gap. */
function noteWhatWaits(work: Work, messages: readonly EventMessage[], taken: readonly Taken[]): void {
  const early = new Set<string>();
  for (const [index, { event }] of messages.entries()) {
    const aggregate = { type: event.aggregateType, id: event.aggregateId };
    const name = `${aggregate.type}/${aggregate.id}`;
    const { outcome, waiting } = taken[index] as Taken;
    const isEarly = outcome === 'gap' || outcome === 'blocked';
    if (waiting || (early.has(name) && !isEarly)) noteWaiting(work, aggregate);
    if (isEarly) early.add(name);
  }
}

/** Before any handler has run. */
function outcomeOf({ outcome, expected }: Taken, { passedAs }: EventMessage): Applied {
  switch (outcome) {
    case 'apply':
    case 'passed':
      return { kind: passedAs };
    case 'repeat':
    case 'held':
      return { kind: 'repeat' };
    case 'older':
    case 'not-accepted':
      return { kind: outcome };
    default:
      return { kind: 'held', reason: outcome, expected: BigInt(expected) };
  }
}

/** In the same transaction, which has locked their positions: a gap can not close before its event is there to be found. */
async function holdThose(
  work: Work,
  client: pg.PoolClient,
  messages: readonly EventMessage[],
  outcomes: readonly Applied[],
): Promise<void> {
  const held = messages.flatMap((message, index) => {
    const outcome = outcomes[index];
    return outcome?.kind === 'held' ? [outOfOrder(work, message, outcome.reason as never)] : [];
  });
  if (held.length > 0) await hold(client, work, held);
}

/**
 * Keeps a message that can not be applied as it is.
 *
 * @param arrived whether it came as a message; else it was held, and has been tried again
 */
export async function keep(work: Work, message: UnreadableMessage, arrived: boolean): Promise<Applied> {
  const [held] = await ownTransaction(work, (tx) => hold(tx, work, [asItCame(work, message, arrived)]));
  if (held === null) return { kind: 'not-accepted' };
  const { event } = message;
  // Where it lets others pass, it may be what the next ones have waited for.
  if (work.consumer.mode === 'strict' && event?.source === work.catalogue.source) {
    noteWaiting(work, { type: event.aggregateType, id: event.aggregateId });
  }
  return held === true ? { kind: 'held', reason: message.reason } : { kind: 'repeat' };
}

/** A transaction in which no handler runs. */
export function ownTransaction<T>(work: Work, task: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  return transaction(work.invocation, async (tx) => {
    try {
      return await task(tx);
    } catch (error) {
      if (isStaleWriter(error)) tx.release(true);
      throw error;
    }
  });
}

/** What a `before` step answered, if only `undefined`. */
interface BeforeAnswer {
  readonly answer: unknown;
}

/**
 * Runs the `before` step of an event, while no transaction is open, and only if the event would be applied as far as a plain read
 * can tell.
 *
 * @throws HandlerFailedError (`HANDLER_FAILED`)
 */
export async function runBefore(work: Work, message: EventMessage): Promise<BeforeAnswer | undefined> {
  const { steps, event } = message;
  if (steps?.before === undefined) return undefined;
  const client = await work.invocation.connect();
  let wanted: boolean;
  try {
    wanted = await wouldApply(client, work, event);
  } catch (error) {
    client.release(true);
    throw error;
  }
  client.release();
  return wanted ? { answer: await work.spans.run([message], () => callBefore(work, steps, event)) } : undefined;
}

/** @throws HandlerFailedError (`HANDLER_FAILED`) */
export async function callBefore(work: Work, steps: AnySteps, event: ReceivedEvent): Promise<unknown> {
  try {
    return await steps.before?.(event, beforeContext(work, event));
  } catch (cause) {
    throw new HandlerFailedError(cause, false);
  }
}

/** @throws HandlerFailedError (`HANDLER_FAILED`), and what says that the handler broke the transaction */
export async function runHandler(work: Work, call: HandlerCall, tx: pg.PoolClient, before: unknown): Promise<void> {
  try {
    await work.spans.run(call, () => handle(call, tx, before));
  } catch (cause) {
    throw new HandlerFailedError(cause, !(isServerAnswer(cause) || (await isAlive(tx))));
  }
  await assertOpen(tx);
}

/** One call of a handler, which a message of it names. */
export async function handle([message, ...others]: HandlerCall, tx: pg.ClientBase, before: unknown): Promise<void> {
  const { steps, event } = message;
  if (others.length === 0) return steps?.handle(event, handlerContext(event, tx, before));
  return steps?.handleMany?.([event, ...others.map((other) => other.event)], { tx });
}

/** A lost connection rejects with an error that has no code. In a failed transaction an answer is an error, too. */
async function isAlive(tx: pg.PoolClient): Promise<boolean> {
  try {
    await tx.query('select 1');
    return true;
  } catch (error) {
    return isServerAnswer(error);
  }
}
