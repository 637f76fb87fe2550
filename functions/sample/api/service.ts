import type pg from 'pg';
import type { Outbox } from '../../../shared/outbox/index.ts';
import type { Erasure, IndexKeys, Keyring } from '../../../shared/sealing/index.ts';
import type { Log } from '../../../shared/telemetry/index.ts';
import type { definition } from '../catalogue/definition.ts';
import type { CallerRules } from './caller.ts';

/** What the operations work with. */
export interface Service {
  readonly pool: pg.Pool;
  readonly outbox: Outbox<typeof definition>;
  readonly keyring: Keyring;
  readonly indexKeys: IndexKeys;
  readonly erasure: Erasure;
  readonly callers: CallerRules;
  readonly log: Log;
  /** A new UUID. */
  readonly newId: () => string;
  /** Trace header of the invocation, as Lambda gives it. */
  readonly lambdaTrace: () => string | undefined;
}
