import type { SQSClient } from '@aws-sdk/client-sqs';
import type { Queryable } from '../../../shared/database/index.ts';
import type { ArgumentsOf, CommandName } from '../../../shared/operations/index.ts';
import type { OperatorConfig } from '../config.ts';
import type { Erasing } from '../erasing.ts';

/** What commands work with. */
export interface Tools extends OperatorConfig {
  readonly db: Queryable;
  readonly sqs: SQSClient;
  /** What erases persons; undefined: this function may not. */
  readonly erasing?: (() => Promise<Erasing>) | undefined;
  /** Milliseconds that a command may work in this invocation. */
  readonly budgetMs: number;
}

export type Answer = Readonly<Record<string, unknown>>;

/**
 * Runs a command whose arguments fit its schema. `reason` is given to acts.
 *
 * @throws SealedOutboxError: the refusals of the library, whose messages hold no payload
 */
export type Runner<Name extends CommandName> = (
  tools: Tools,
  args: ArgumentsOf<Name>,
  reason: string,
) => Promise<Answer>;

export type Runners<Name extends CommandName> = { readonly [N in Name]: Runner<N> };
