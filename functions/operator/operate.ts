import { SealedOutboxError } from '../../shared/errors/index.ts';
import { violations } from '../../shared/events/index.ts';
import { HeldOperationError } from '../../shared/inbox/index.ts';
import {
  type Command,
  type CommandName,
  commands,
  isCommandName,
  type OperationAnswer,
  type OperationRequest,
  recordedArguments,
} from '../../shared/operations/index.ts';
import { beginOperatorAct, endOperatorAct, OperationError } from '../../shared/outbox/index.ts';
import type { Log } from '../../shared/telemetry/index.ts';
import { inboxRunners } from './run/inbox.ts';
import { outboxRunners } from './run/outbox.ts';
import { resendRunners } from './run/resend.ts';
import type { Answer, Runner, Runners, Tools } from './run/tools.ts';
import { vaultRunners } from './run/vault.ts';
import { validators } from './validators.generated.js';

const runners: Runners<CommandName> = { ...outboxRunners, ...inboxRunners, ...resendRunners, ...vaultRunners };

export interface Invocation {
  readonly tools: Tools;
  /** Of the invocation: CloudTrail has it beside the caller. */
  readonly requestId: string;
  readonly log: Log;
}

/**
 * Carries out one request of an operator. Looks and acts leave a row in `outbox.operator_act`, written before anything is done; every call
 * leaves a log line. Never rejects: the answer says whether it was done, refused (nothing was changed) or failed.
 */
export async function operate(input: unknown, { tools, requestId, log }: Invocation): Promise<OperationAnswer> {
  let act: string | null = null;
  let named: Record<string, unknown> = { requestId };
  try {
    const { request, name, command } = checked(input, tools);
    const { by: claimedBy, reason = null } = request;
    const call = { command: name, arguments: recordedArguments(command, request.arguments), claimedBy, reason };
    named = { ...call, requestId };
    if (command.kind !== 'glance') act = await beginOperatorAct(tools.db, { ...call, requestId });
    const run = runners[name] as Runner<CommandName>;
    const result = plain(await run(tools, request.arguments, reason ?? ''));
    // What a look has shown is nobody's business afterwards.
    const detail = command.kind === 'act' ? result : undefined;
    await end(tools, log, act, 'done', detail);
    log.info('an operator called', { ...named, act, outcome: 'done', result: detail });
    return { ok: true, act, result };
  } catch (error) {
    const answer = refusal(error, act);
    const { outcome, code } = answer;
    await end(tools, log, act, outcome, { code });
    log[outcome === 'refused' ? 'info' : 'error']('an operator called', {
      ...named,
      act,
      outcome,
      code,
      ...placeOf(error),
    });
    return answer;
  }
}

interface Checked {
  readonly request: OperationRequest;
  readonly name: CommandName;
  readonly command: Command;
}

/** @throws SealedOutboxError of `BEFORE_ANYTHING` */
function checked(input: unknown, { inbox, vault }: Tools): Checked {
  const [fault] = violations(validators['request'], input);
  if (fault !== undefined) {
    throw new SealedOutboxError(
      'REQUEST_MALFORMED',
      `the request: ${fault.pointer} ${fault.detail}. Nothing was done.`,
    );
  }
  const request = input as OperationRequest;
  const name = request.command;
  if (!isCommandName(name)) {
    throw new SealedOutboxError(
      'COMMAND_UNKNOWN',
      'this version of the function has no such command. Nothing was done. Deploy the version that the command line is of.',
    );
  }
  const command = commands[name];
  const [wrong] = violations(validators[name], request.arguments);
  if (wrong !== undefined) {
    throw new SealedOutboxError('OPERATION_ARGUMENT', `${wrong.pointer.slice(1)} ${wrong.detail}. Nothing was done.`);
  }
  if ((command.kind === 'act') !== (request.reason !== undefined)) {
    const rule = command.kind === 'act' ? 'needs a reason: the audit keeps it' : 'changes nothing and takes no reason';
    throw new SealedOutboxError('OPERATION_ARGUMENT', `${name} ${rule}. Nothing was done.`);
  }
  if (command.area === 'inbox' && !inbox) {
    throw new SealedOutboxError(
      'INBOX_ELSEWHERE',
      "the consumers' tables are not in this function's database. Nothing was done. Use the Operator of their own database, or its SQL.",
    );
  }
  if (command.area === 'vault' && !vault) {
    throw new SealedOutboxError(
      'VAULT_ELSEWHERE',
      "this function knows nothing of the vault's keys. Nothing was done. Give its Operator `vault`, or use the Operator of the vault's own database.",
    );
  }
  return { request, name, command };
}

const BEFORE_ANYTHING: ReadonlySet<string> = new Set([
  'REQUEST_MALFORMED',
  'COMMAND_UNKNOWN',
  'OPERATION_ARGUMENT',
  'INBOX_ELSEWHERE',
  'QUEUE_UNKNOWN',
  'REDRIVE_QUEUES',
  'VAULT_ELSEWHERE',
  'ERASURE_ELSEWHERE',
  'ARCHIVE_ELSEWHERE',
  'ERASURE_DECLARATION',
  'ERASURE_CLASS_UNDECLARED',
  'PERSON_UNKNOWN',
  'NOTHING_TO_CANCEL',
  'SEALING_KEY_UNKNOWN',
]);

type Refusal = Extract<OperationAnswer, { ok: false }>;

/** PostgreSQL's own messages quote rows, so of an error that is none of ours only the code goes out. */
function refusal(error: unknown, act: string | null): Refusal {
  if (error instanceof SealedOutboxError) {
    const { code, message } = error;
    const refused = error instanceof OperationError || error instanceof HeldOperationError || BEFORE_ANYTHING.has(code);
    return { ok: false, act, outcome: refused ? 'refused' : 'failed', code, message };
  }
  const { code: cause = 'no code' } = error as { code?: unknown };
  const known =
    act === null
      ? 'Nothing was changed.'
      : 'Each act is one transaction, so it happened as a whole or not at all: look at what it was to change before you repeat it.';
  return {
    ok: false,
    act,
    outcome: 'failed',
    code: 'OPERATION_FAILED',
    message: `the command failed (${String(cause)}). ${known} The function's log says where.`,
  };
}

/** An act that is done stays done, also where this cannot be written down: the row then has no outcome, and the log has it. */
async function end(
  { db }: Tools,
  log: Log,
  act: string | null,
  outcome: 'done' | 'refused' | 'failed',
  detail: unknown,
): Promise<void> {
  if (act === null) return;
  try {
    await endOperatorAct(db, act, outcome, detail);
  } catch (error) {
    log.error('how an act ended could not be written down', { act, outcome, ...placeOf(error) });
  }
}

/** Where an error was thrown, without its message. */
function placeOf(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return {};
  const frames = (error.stack ?? '').split('\n').filter((line) => line.startsWith('    at '));
  return { error: error.name, cause: (error as { code?: unknown }).code, stack: frames.slice(0, 8).join('\n') };
}

/** JSON's own kinds only: 64-bit numbers as strings, times as RFC 3339. */
function plain(answer: Answer): Answer {
  const text = JSON.stringify(answer, (_, value: unknown) => (typeof value === 'bigint' ? value.toString() : value));
  return JSON.parse(text) as Answer;
}
