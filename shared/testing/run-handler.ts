import type { CompiledCatalogue, ReceivedEvent } from '../events/index.ts';
import type { HandlerSteps, ManyHandler, Once } from '../inbox/index.ts';
import { type AnyGivenEvent, receivedEvent } from './received-event.ts';
import { testTransaction, type TestTransaction } from './test-transaction.ts';
import { TestingError } from './testing-error.ts';

export interface RunHandlerOptions {
  /** Default: `testTransaction()`. */
  readonly tx?: TestTransaction;
  /** What other systems answer to `once`, by the call's name; an error is thrown as it is. The calls themselves are not made. */
  readonly calls?: Readonly<Record<string, unknown>>;
}

/** What a handler did. */
export interface HandlerRun {
  readonly tx: TestTransaction;
  /** Names of the calls that it asked for, in order. */
  readonly called: readonly string[];
}

/**
 * Runs the handler of an event's type: its `before` step first, while there is no transaction, then `handle` in one. `handleMany` gets a list of one.
 *
 * @throws TestingError `EVENT_NOT_IN_CATALOGUE`, `EVENT_DATA_INVALID`; `HANDLER_MISSING`; `CALL_NOT_EXPECTED` for a call without an answer in `calls`; and
 * whatever the handler throws
 */
export async function runHandler(
  catalogue: CompiledCatalogue,
  handlers: Readonly<Record<string, unknown>>,
  event: AnyGivenEvent,
  { calls = {}, tx = testTransaction() }: RunHandlerOptions,
): Promise<HandlerRun> {
  const handler = Object.hasOwn(handlers, event.type) ? handlers[event.type] : undefined;
  if (handler === undefined) throw new TestingError('HANDLER_MISSING', `There is no handler for ${event.type}.`);
  const steps = (typeof handler === 'function' ? { handle: handler } : handler) as
    | HandlerSteps<ReceivedEvent>
    | ManyHandler<ReceivedEvent>;
  const received = receivedEvent(catalogue, event);
  const called: string[] = [];
  if ('handleMany' in steps) {
    await steps.handleMany([received], { tx });
    return { tx, called };
  }
  const before = await steps.before?.(received, { once: answered(calls, called) });
  await steps.handle(received, { tx, before });
  return { tx, called };
}

function answered(calls: Readonly<Record<string, unknown>>, called: string[]): Once {
  return async (name, _call, { toRecord }) => {
    called.push(name);
    if (!Object.hasOwn(calls, name)) {
      throw new TestingError('CALL_NOT_EXPECTED', `The handler calls "${name}", for which the test has no answer.`);
    }
    const answer = calls[name];
    if (answer instanceof Error) throw answer;
    return (toRecord === undefined ? answer : toRecord(answer as never)) as never;
  };
}
