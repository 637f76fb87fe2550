import { Logger } from '@aws-lambda-powertools/logger';
import type { Context } from 'aws-lambda';
import pg from 'pg';
import { clientConfig, databaseConfig } from '../../shared/database/index.ts';
import { SealedOutboxError } from '../../shared/errors/index.ts';
import { inboxWalks } from '../../shared/inbox/index.ts';
import { outboxWalks, systemClock } from '../../shared/outbox/index.ts';
import { runJanitor, type Walk, walkOfFunction, type WalkReport } from '../../shared/retention/index.ts';
import { openArchive } from '../archive.ts';
import { janitorConfig } from './config.ts';
import { openErasures } from './erasures.ts';
import { keyRequest, lookAfterKeys } from './keys.ts';
import { functionMetrics } from '../metrics.ts';

const log = new Logger();
const config = janitorConfig(process.env);
const database = databaseConfig(process.env);
const metrics = functionMetrics();

/** A page takes far less; a statement that hangs ends with a log line and not with the function. */
const STATEMENT_MS = 20_000;
/** Left over when the run ends: one page with its file of the archive. Milliseconds. */
const RESERVE_MS = 30_000;

/**
 * A scheduled run: looks after keys, and deletes, and archives before, what is older than it need be kept, as long as its time lasts. Invoked
 * by hand it also does what the event asks for (`KeyRequest`).
 */
export async function handler(event: unknown, context: Context): Promise<readonly WalkReport[]> {
  log.addContext(context);
  const request = keyRequest(event, config.sealing);
  const startedAt = systemClock.monotonic();
  const budgetMs = Math.min(config.maxSeconds * 1000, context.getRemainingTimeInMillis() - RESERVE_MS);
  const opened = config.archive === undefined ? undefined : openArchive(config.archive, process.env);
  const erasures = config.erasures && openErasures(config.erasures, { database, log, metrics, env: process.env });
  const client = new pg.Client({
    ...clientConfig(database),
    application_name: 'janitor',
    statement_timeout: STATEMENT_MS,
    query_timeout: STATEMENT_MS + 5_000,
  });
  client.on('error', (error: Error & { code?: string }) => log.warn('the connection broke', { code: error.code }));
  try {
    await client.connect();
    const { sealing, rest } = config;
    const keys =
      sealing === undefined
        ? { failed: false }
        : await lookAfterKeys({
            client,
            sealing,
            request,
            log,
            metrics,
            rest,
            erasures: erasures?.log,
            budgetMs: (budgetMs * 3) / 4,
          });
    // First: a person who waits to be erased goes before old rows.
    const walks: Walk[] = erasures === undefined ? [] : [erasures.walk];
    if (config.outboxSeconds !== undefined) {
      walks.push(...outboxWalks(client, { keepSeconds: config.outboxSeconds, archive: opened?.archive, metrics }));
    }
    if (config.inboxSeconds !== undefined) {
      walks.push(...(await inboxWalks(client, { keepSeconds: config.inboxSeconds, log })));
    }
    walks.push(...config.also.map((more) => walkOfFunction(client, more)));
    const { walks: told, failed } = await runJanitor({
      walks,
      budgetMs: budgetMs - (systemClock.monotonic() - startedAt),
      rest: config.rest,
      clock: systemClock,
      log,
      metrics,
    });
    log.info('the run is over', { walks: told });
    if (failed || keys.failed) {
      throw new SealedOutboxError(
        'JANITOR_FAILED',
        'Not everything could be done; the log names the walks and the keys that failed. The next run tries again.',
      );
    }
    return told;
  } finally {
    opened?.close();
    await erasures?.close();
    await client.end();
  }
}
