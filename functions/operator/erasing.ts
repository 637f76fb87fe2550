import { createPool, type DatabaseConfig, revalidate } from '../../shared/database/index.ts';
import type { Erasure, EraseRequest, Subject } from '../../shared/sealing/index.ts';
import type { Log } from '../../shared/telemetry/index.ts';
import { functionErasure, keptSince } from '../erasure.ts';
import { functionKeys } from '../keyring.ts';
import type { OperatorErases } from './config.ts';

/** What erases persons. */
export interface Erasing {
  readonly erasure: Erasure;
  /** From when the years count for which the service must keep what. */
  readonly keptSince: (subject: Subject) => Promise<EraseRequest['since']>;
  /** Makes sure that its connection still answers: the sandbox may have been frozen for hours since it was last used. */
  ready(): Promise<void>;
  close(): Promise<void>;
}

const STATEMENT_MS = 20_000;

/**
 * Opened when somebody is first to be erased: the other commands need no keys. On a connection of its own, because the other one is in the middle of
 * writing down what it does.
 *
 * @param answerTimeoutMs when a statement is given up that nobody answers; a little later than the server would cancel it
 * @throws KeyringConfigError (`KEYRING_CONFIG`)
 */
export function openErasing(
  { keptSince: name, ...declared }: OperatorErases,
  database: DatabaseConfig,
  log: Log,
  answerTimeoutMs = STATEMENT_MS + 5_000,
): Erasing {
  const pool = createPool(database, {
    max: 1,
    applicationName: 'operator',
    statementTimeoutMs: STATEMENT_MS,
    answerTimeoutMs,
    log,
  });
  return {
    ready: () => revalidate(pool),
    close: () => pool.end(),
    erasure: functionErasure(pool, functionKeys(pool), declared),
    keptSince: async (subject) => (name === undefined ? undefined : keptSince(pool, name, subject)),
  };
}
