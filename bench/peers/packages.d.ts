// What the benchmark uses of the peers, so that its code can be checked without them: they are installed when it first runs.

declare module 'graphile-worker' {
  import type { Pool } from 'pg';

  interface RunnerOptions {
    readonly pgPool: Pool;
    readonly concurrency?: number;
    readonly pollInterval?: number;
    readonly noHandleSignals?: boolean;
    readonly parsedCronItems?: readonly unknown[];
    readonly logger?: Logger;
    readonly preset?: {
      readonly worker: {
        readonly localQueue?: { readonly size: number };
        readonly completeJobBatchDelay?: number;
        readonly failJobBatchDelay?: number;
      };
    };
    readonly taskList?: Readonly<Record<string, (payload: unknown) => Promise<void>>>;
  }

  interface Logger {
    error(message: string): void;
  }
  export const Logger: new (logFactory: () => () => void) => Logger;
  export function parseCronItems(items: readonly never[]): readonly unknown[];
  export function run(options: RunnerOptions): Promise<unknown>;
  export function runMigrations(options: Pick<RunnerOptions, 'pgPool'>): Promise<void>;
}

declare module 'pg-boss' {
  import type { PoolConfig } from 'pg';

  export class PgBoss {
    constructor(options: PoolConfig & { readonly supervise?: boolean; readonly schedule?: boolean });
    on(event: 'error', listener: (error: Error) => void): void;
    start(): Promise<unknown>;
    stop(): Promise<void>;
    createQueue(name: string, options: { readonly policy: 'key_strict_fifo' }): Promise<void>;
    insert(name: string, jobs: readonly { readonly data: unknown; readonly singletonKey: string }[]): Promise<unknown>;
    fetch(name: string, options: { readonly batchSize: number }): Promise<readonly { id: string; data: unknown }[]>;
    complete(name: string, ids: readonly string[]): Promise<unknown>;
  }
}

declare module 'pg-transactional-outbox' {
  import type { ClientConfig } from 'pg';

  interface Setup {
    readonly outboxOrInbox: 'outbox';
    readonly database: string;
    readonly schema: string;
    readonly table: string;
    readonly listenerRole: string;
    readonly nextMessagesName: string;
  }

  export const DatabaseSetup: {
    dropAndCreateTable(setup: Setup): string;
    createPollingFunction(setup: Setup): string;
    setupPollingIndexes(setup: Setup): string;
  };
  export function getDisabledLogger(): object;
  export function initializePollingMessageListener(
    config: {
      readonly outboxOrInbox: 'outbox';
      readonly dbListenerConfig: ClientConfig;
      readonly settings: Readonly<Record<string, string | number | boolean>>;
    },
    handler: { handle(message: { readonly payload: unknown }): Promise<void> },
    logger: object,
    strategies: { batchSizeStrategy(): Promise<number> },
  ): [shutdown: () => Promise<void>];
}
