import { Logger } from '@aws-lambda-powertools/logger';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { Context } from 'aws-lambda';
import pg from 'pg';
import { clientConfig, databaseConfig } from '../../shared/database/index.ts';
import type { OperationAnswer } from '../../shared/operations/index.ts';
import { openedOnce } from '../opened-once.ts';
import { operatorConfig } from './config.ts';
import { operate } from './operate.ts';

const log = new Logger();
const config = operatorConfig(process.env);
const database = databaseConfig(process.env);
const { erases } = config;

/** Its clients of KMS and S3 are no part of a cold start for those who only look. */
const erasing = erases && openedOnce(async () => (await import('./erasing.ts')).openErasing(erases, database, log));

/** What a count over a whole event table may take. Below the function's time-out of 5 minutes, so that it ends with an answer. Milliseconds. */
const STATEMENT_MS = 240_000;
/** Work in slices ends an invocation after this, so that whoever waits sees how far it has come. Milliseconds. */
const SLICE_MS = 30_000;
/** Left over for the answer. Milliseconds. */
const RESERVE_MS = 20_000;

/**
 * What an operator orders, one command an invocation: `{ command, arguments, by, reason }`. Whoever may invoke this function may do all of it; IAM
 * decides who that is.
 */
export async function handler(input: unknown, context: Context): Promise<OperationAnswer> {
  log.addContext(context);
  const db = new pg.Client({
    ...clientConfig(database),
    application_name: 'operator',
    statement_timeout: STATEMENT_MS,
    query_timeout: STATEMENT_MS + 5_000,
  });
  db.on('error', (error: Error & { code?: string }) => log.warn('the connection broke', { code: error.code }));
  const sqs = new SQSClient({
    maxAttempts: 1,
    useQueueUrlAsEndpoint: false,
    requestHandler: { connectionTimeout: 2_000, requestTimeout: 7_000, throwOnRequestTimeout: true },
  });
  try {
    await db.connect();
    return await operate(input, {
      tools: {
        ...config,
        db,
        sqs,
        erasing,
        budgetMs: Math.min(SLICE_MS, context.getRemainingTimeInMillis() - RESERVE_MS),
      },
      requestId: context.awsRequestId,
      log,
    });
  } catch (error) {
    const { code = 'no code' } = error as { code?: string };
    log.error('the database cannot be reached', { code });
    return {
      ok: false,
      act: null,
      outcome: 'failed',
      code: 'DATABASE_UNREACHABLE',
      message: `the function cannot connect to its database (${code}). Nothing was changed. Its log and docs/runbooks/lag.md help further.`,
    };
  } finally {
    sqs.destroy();
    await db.end().catch(() => {});
  }
}
