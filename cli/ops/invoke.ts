import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { GetCallerIdentityCommand, STSClient } from '@aws-sdk/client-sts';
import { SealedOutboxError } from '../../shared/errors/index.ts';
import type { OperationAnswer, OperationRequest } from '../../shared/operations/index.ts';
import type { Target } from '../cloud/target.ts';
import { CALL } from '../cloud/call.ts';

/** Gives a request to the operator's function and waits for the answer. */
export type Invoke = (request: Omit<OperationRequest, 'by'>) => Promise<OperationAnswer>;

export interface Operator {
  readonly invoke: Invoke;
  close(): void;
}

/** Longer than the function itself takes. Milliseconds. */
const LONGEST_MS = 310_000;

/**
 * The function of a target, and who we are: asked of STS once, where it is not given.
 *
 * @param longestMs how long to wait for an answer
 * @throws SealedOutboxError `OPERATOR_UNREACHABLE` when nothing was carried out, `OPERATOR_CUT_OFF` when that is not known
 */
export function operatorOf(target: Target, by: string | undefined, longestMs = LONGEST_MS): Operator {
  // An act must not happen twice because its answer was lost on the way.
  const lambda = new LambdaClient({
    ...target.client,
    maxAttempts: 1,
    requestHandler: { connectionTimeout: 5_000, requestTimeout: longestMs, throwOnRequestTimeout: true },
  });
  let caller = by ?? target.caller;
  return {
    invoke: async (request) => {
      caller ??= await callerIdentity(target);
      return send(lambda, target, { ...request, by: caller });
    },
    close: () => lambda.destroy(),
  };
}

async function callerIdentity({ client }: Target): Promise<string> {
  const sts = new STSClient(client);
  try {
    const { Arn } = await sts.send(new GetCallerIdentityCommand({}));
    return Arn ?? 'unknown';
  } catch (error) {
    throw unreachable(error, 'AWS does not say who you are');
  } finally {
    sts.destroy();
  }
}

async function send(lambda: LambdaClient, target: Target, request: OperationRequest): Promise<OperationAnswer> {
  const FunctionName = target.operatorFunction;
  let answer;
  try {
    answer = await lambda.send(new InvokeCommand({ FunctionName, Payload: JSON.stringify(request) }));
  } catch (error) {
    // A service that answers with an error has started nothing, unless it broke itself; a lost connection says nothing.
    const { $metadata } = error as { $metadata?: { httpStatusCode?: number } };
    const status = $metadata?.httpStatusCode;
    if (status !== undefined && status < 500) throw unreachable(error, `the function ${FunctionName} was not invoked`);
    if (NOT_SENT.has(nameOf(error))) throw unreachable(error, `the function ${FunctionName} was not invoked`);
    throw cutOff(nameOf(error), error);
  }
  const text = Buffer.from(answer.Payload ?? []).toString('utf8');
  if (answer.FunctionError !== undefined) throw cutOff(errorTypeIn(text) ?? answer.FunctionError);
  return JSON.parse(text) as OperationAnswer;
}

/** Nothing had left this machine. */
const NOT_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'CredentialsProviderError', 'TokenProviderError']);

const nameOf = (error: unknown): string => {
  const { code, name } = error as { code?: unknown; name?: string };
  return typeof code === 'string' ? code : (name ?? 'unknown error');
};

function unreachable(cause: unknown, what: string): SealedOutboxError {
  const { message = '' } = cause as Partial<Error>;
  return new SealedOutboxError('OPERATOR_UNREACHABLE', `${what} (${nameOf(cause)}: ${message}). Nothing was changed.`, {
    cause,
  });
}

function cutOff(why: string, cause?: unknown): SealedOutboxError {
  return new SealedOutboxError(
    'OPERATOR_CUT_OFF',
    `no answer came (${why}): it is not known whether it happened. \`${CALL} acts list\` shows it when it was begun, and how it ended.`,
    { cause },
  );
}

function errorTypeIn(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { errorType?: string }).errorType;
  } catch {
    return undefined;
  }
}
