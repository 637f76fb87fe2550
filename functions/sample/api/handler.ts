import middyfy from '@middy/core';
import type { Context } from 'aws-lambda';
import { isDatabaseAway } from './connection.ts';
import { type Answer, problemAnswer, ProblemError, sealingProblem, unavailable } from './problem.ts';
import type { HttpEvent } from './request.ts';
import { routeOf, shownPath } from './routes.ts';
import type { Service } from './service.ts';
import { inRequestSpan } from './trace.ts';

/** What API Gateway takes as an answer. */
interface HttpResult {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export type ApiHandler = (event: HttpEvent, context: Context) => Promise<HttpResult>;

/** The Lambda handler of the sample API. */
export function createHandler(service: Service): ApiHandler {
  return middyfy<HttpEvent, HttpResult>().handler(async (event) =>
    result(await inRequestSpan(service, event, () => answerTo(service, event))),
  );
}

async function answerTo(service: Service, event: HttpEvent): Promise<Answer> {
  try {
    return await routeOf(event)(service, event);
  } catch (error) {
    return problemAnswer(problemOf(service, error), shownPath(event.rawPath));
  }
}

function result(answer: Answer): HttpResult {
  return {
    statusCode: answer.status,
    headers: { 'cache-control': 'no-store', ...answer.headers },
    body: answer.body,
  };
}

function problemOf(service: Service, error: unknown): ProblemError {
  if (error instanceof ProblemError) return error;
  if (isDatabaseAway(error)) {
    service.log.warn('the database did not answer; the caller is asked to come back', failureFields(error));
    return unavailable('The service cannot reach its database. Repeat the request with the same key.', error);
  }
  const problem = sealingProblem(error);
  if (problem?.kind === 'invalid-request') return problem;
  if (problem?.kind === 'unavailable') {
    service.log.warn('keys could not be loaded; the caller is asked to come back', failureFields(error));
    return problem;
  }
  service.log.error('a request failed', failureFields(error));
  return (
    problem ??
    new ProblemError('internal', 'The request was not carried out. The failure was logged.', { cause: error })
  );
}

/** PostgreSQL's messages and details quote values of the row, so only what names the place is logged. */
function failureFields(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { error: typeof error };
  const { code, constraint, routine } = error as { code?: unknown; constraint?: unknown; routine?: unknown };
  const frames = (error.stack ?? '').split('\n').filter((line) => line.startsWith('    at '));
  return { error: error.name, code, constraint, routine, stack: frames.slice(0, 12).join('\n') };
}
