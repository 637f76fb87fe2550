import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';

/** A call of the operator's function. */
export interface OperatorCall {
  /** Who calls, as they say: 1 to 300 characters. */
  readonly claimedBy: string;
  /** Of the function's invocation: leads to who it was in CloudTrail. */
  readonly requestId: string;
  readonly command: string;
  /** Nothing of a payload. */
  readonly arguments: Readonly<Record<string, unknown>>;
  /** 1 to 500 characters; null for a look. */
  readonly reason: string | null;
}

export type OperatorOutcome = 'done' | 'refused' | 'failed';

export interface OperatorAct extends OperatorCall {
  readonly number: string;
  readonly startedAt: Date;
  /** The database user. */
  readonly actor: string;
  readonly finishedAt: Date | null;
  /** Null: under way, or cut off, and nobody knows. */
  readonly outcome: OperatorOutcome | null;
  readonly detail: unknown;
}

/**
 * Writes down that an act begins, before it does, and has the audit rows that this session writes from now on carry its number. Role: `outbox_operator`.
 *
 * @returns the act's number
 * @throws OperationError: `OPERATION_ARGUMENT`, `OPERATION_FORBIDDEN`
 */
export async function beginOperatorAct(db: Queryable, act: OperatorCall): Promise<string> {
  const [row] = await call(db, 'select outbox.begin_operator_act($1, $2, $3, $4, $5)::text as number', [
    act.claimedBy,
    act.requestId,
    act.command,
    JSON.stringify(act.arguments),
    act.reason,
  ]);
  return row.number;
}

/** @throws OperationError `DELIVERY_UNKNOWN` when the act is not under way, or is another user's */
export async function endOperatorAct(
  db: Queryable,
  number: string,
  outcome: OperatorOutcome,
  detail: unknown,
): Promise<void> {
  await call(db, 'select outbox.end_operator_act($1, $2, $3)', [number, outcome, JSON.stringify(detail ?? null)]);
}

/**
 * The newest first. Role: `outbox_operator`.
 *
 * @param options.before `number` of the last one of the page before
 * @param options.limit 1 to 1000; default 50
 * @throws OperationError: `OPERATION_ARGUMENT`, `OPERATION_FORBIDDEN`
 */
export async function listOperatorActs(
  db: Queryable,
  options: { readonly before?: string; readonly limit?: number } = {},
): Promise<OperatorAct[]> {
  const rows = await call(
    db,
    `select number, started_at as "startedAt", actor, claimed_by as "claimedBy", request_id as "requestId", command, arguments, reason,
            finished_at as "finishedAt", outcome, detail
       from outbox.list_operator_acts($1, $2)`,
    [options.before ?? null, options.limit ?? 50],
  );
  return rows as OperatorAct[];
}
