import type pg from 'pg';
import { SealedOutboxError } from '../errors/index.ts';

/** What hands out connections, each given back by its `release`: a `pg.Pool` is one. */
export interface Connections {
  connect(): Promise<pg.PoolClient>;
}

/**
 * A statement of the transaction had failed and `work` went on as if it had not (`TRANSACTION_ABORTED`). PostgreSQL answers
 * such a commit with a rollback and no error: nothing of the transaction was kept. Let the statement's error pass, or
 * put a savepoint around what may fail.
 */
export class TransactionAbortedError extends SealedOutboxError {
  constructor() {
    super(
      'TRANSACTION_ABORTED',
      'a statement of the transaction had failed and its error was swallowed: the commit rolled everything back. ' +
        'Let the error pass, or put a savepoint around what may fail.',
    );
  }
}

/** PostgreSQL refuses to write: after a fail-over a connection may still lead to the server that was the writer, or to one that is not yet. */
const READ_ONLY = '25006';
/** ORMs wrap the driver's error; nobody wraps deeper than this. */
const CAUSE_DEPTH = 5;

/** Whether the connection leads to a server that takes no writes, and must not be used again: it would refuse every retry. */
export function isStaleWriter(error: unknown): boolean {
  let current = error;
  for (let depth = 0; depth < CAUSE_DEPTH && current instanceof Error; depth += 1) {
    if ((current as { code?: unknown }).code === READ_ONLY) return true;
    current = current.cause;
  }
  return false;
}

/**
 * Runs `work` in one transaction on a connection of `pool`: commit when it resolves, roll back when it rejects.
 * A connection on which the rollback itself fails, or whose server takes no writes, is thrown away, never handed to the next caller.
 *
 * @throws TransactionAbortedError (`TRANSACTION_ABORTED`); else whatever `work` or the database throws
 */
export async function transaction<T>(pool: Connections, work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  // A connection that is cut while nobody waits for an answer emits 'error'; without a listener that ends the process.
  const onError = (error: Error): void => {
    broken = error;
  };
  client.on('error', onError);
  try {
    await client.query('begin');
    const result = await work(client);
    const { command } = await client.query('commit');
    if (command === 'ROLLBACK') throw new TransactionAbortedError();
    return result;
  } catch (error) {
    try {
      await client.query('rollback');
    } catch (rollbackError) {
      broken = rollbackError as Error;
    }
    if (isStaleWriter(error)) broken = error as Error;
    throw error;
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}
