import { createPool, type DatabaseConfig } from '../../shared/database/index.ts';
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
}

/**
 * Opened when somebody is first to be erased: the other commands need no keys. On a connection of its own, because the other one is in the middle of
 * writing down what it does.
 *
 * @throws KeyringConfigError (`KEYRING_CONFIG`)
 */
export function openErasing(
  { keptSince: name, ...declared }: OperatorErases,
  database: DatabaseConfig,
  log: Log,
): Erasing {
  const pool = createPool(database, { max: 1, applicationName: 'operator', statementTimeoutMs: 20_000, log });
  return {
    erasure: functionErasure(pool, functionKeys(pool), declared),
    keptSince: async (subject) => (name === undefined ? undefined : keptSince(pool, name, subject)),
  };
}
