import type pg from 'pg';
import { isStaleWriter, type Row, TransactionAbortedError } from '../database/index.ts';
import { HandlerFailedError, TransactionEndedError } from './errors.ts';
import { isRetryable, sqlStateOf } from './failure.ts';

/**
 * Runs `work` in the transaction of a consumer: opened by `take` together with its first statement in one round trip, ended by
 * `inbox.finish` and the commit in another. On any failure it is rolled back and the connection is given back, or
 * thrown away where the rollback fails too.
 *
 * @param take opens the transaction, with `beginWith`; what it took is given to `work`
 * @throws what `classifyFailure` sorts
 */
export async function takenTransaction<Taken, T>(
  client: pg.PoolClient,
  take: (client: pg.PoolClient) => Promise<Taken>,
  work: (taken: Taken) => Promise<T>,
): Promise<T> {
  let broken: Error | undefined;
  // A connection that is cut while nobody waits for an answer emits 'error'; without a listener that ends the process.
  const onError = (error: Error): void => {
    broken = error;
  };
  client.on('error', onError);
  try {
    const result = await work(await take(client));
    await finish(client);
    return result;
  } catch (error) {
    try {
      await client.query('rollback');
    } catch (rollbackError) {
      broken = rollbackError as Error;
    }
    // After a fail-over a pooled connection may still lead to the old writer, and would refuse every retry.
    if (isStaleWriter(error)) broken = error as Error;
    throw error;
  } finally {
    client.off('error', onError);
    client.release(broken);
  }
}

/** Opens a transaction and runs its first statement, which has no parameters, in one round trip. */
export async function beginWith(client: pg.PoolClient, first: string): Promise<readonly Row[]> {
  return (await several(client, `begin; ${first}`)).at(-1)?.rows ?? [];
}

/** The same, after what was begun before is undone. */
export async function beginAgainWith(client: pg.PoolClient, first: string): Promise<readonly Row[]> {
  return (await several(client, `rollback; begin; ${first}`)).at(-1)?.rows ?? [];
}

/**
 * What a handler left behind: a transaction in which a statement has failed, or none at all.
 *
 * A statement rejects as soon as the server's error is here. In which state that left the transaction is the server's next message, which it sends
 * apart: looked at in between, a transaction that is over seems open, and the next handler's statements commit each by itself. So where
 * the connection is still busy, an empty statement waits for its turn behind whatever is under way; it fails in no state.
 *
 * @throws TransactionAbortedError (`TRANSACTION_ABORTED`), TransactionEndedError (`TRANSACTION_ENDED`), and what says that the connection is lost
 */
export async function assertOpen(client: pg.ClientBase): Promise<void> {
  // pg's own flag, which its types leave out. Where it is missing, a round trip more is the price.
  if ((client as { readyForQuery?: boolean }).readyForQuery !== true) await client.query('');
  const status = client.getTransactionStatus();
  if (status === 'E') throw new TransactionAbortedError();
  if (status === 'I') throw new TransactionEndedError();
}

async function finish(client: pg.PoolClient): Promise<void> {
  try {
    await several(client, 'select inbox.finish(); commit');
  } catch (error) {
    const state = sqlStateOf(error);
    if (state === undefined || isRetryable(state)) throw error;
    if (state === '25P02') throw new TransactionAbortedError();
    if (state.startsWith('IB')) throw new TransactionEndedError();
    // Without a context in which it was raised it is a statement of our own that the server did not even run, as for want of a right.
    if (state.startsWith('42') && (error as { readonly where?: unknown }).where === undefined) throw error;
    // What the handler has left for the end: a deferred constraint of its tables, or a trigger, whatever that raises.
    throw new HandlerFailedError(error, false);
  }
}

/** Several statements without parameters in one round trip: pg then answers with a list, which its types do not say. */
async function several(client: pg.PoolClient, text: string): Promise<readonly { readonly rows: Row[] }[]> {
  return (await client.query(text)) as unknown as { rows: Row[] }[];
}
