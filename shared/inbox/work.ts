import type { CompiledCatalogue } from '../events/index.ts';
import type { Keyring } from '../sealing/index.ts';
import type { AnySteps } from './handlers.ts';
import type { Invocation } from './invocation.ts';
import type { OutcomeReport } from './outcome-report.ts';
import type { ConsumerIdentity } from './register.ts';
import type { MessageSpans } from './trace.ts';

/** What a consumer does with types that its catalogue does not hold. */
export type UnknownTypes = 'hold' | 'ignore';

/** A consumer as it was declared. */
export interface ConsumerRules {
  readonly consumer: ConsumerIdentity;
  readonly catalogue: CompiledCatalogue;
  /** The handler of a type, if the consumer has one. */
  readonly stepsOf: (type: string) => AnySteps | undefined;
  /** Whether any handler has a `before` step. */
  readonly callsBefore: boolean;
  readonly unknownTypes: UnknownTypes;
  /** Failures of a handler with one event until it is held. */
  readonly attempts: number;
  /** Most messages in one transaction. */
  readonly together: number;
  /** Most transactions at once: each needs a connection. */
  readonly concurrency: number;
  /** Where its keys come from; none: nothing that is sealed is opened. */
  readonly keyring: Keyring | undefined;
  /** The classes of sealed values that it opens. */
  readonly opens: ReadonlySet<string>;
}

/** All that one invocation needs beside its messages. */
export interface Work extends ConsumerRules {
  readonly invocation: Invocation;
  readonly report: OutcomeReport;
  readonly spans: MessageSpans;
  readonly monotonicMs: () => number;
  /** EventBridge has handed the event to the function itself: nothing can be returned, so what fails is held. */
  readonly direct: boolean;
  /** Aggregates that may have held events to go on with: filled while messages are applied. */
  readonly waiting: Map<string, Aggregate>;
}

export interface Aggregate {
  readonly type: string;
  readonly id: string;
}

export function noteWaiting(work: Work, aggregate: Aggregate): void {
  work.waiting.set(`${aggregate.type}/${aggregate.id}`, aggregate);
}
