import type { Queryable } from './queryable.ts';

/**
 * Writes down which database cluster this installation lives in; a relay that is configured for another one refuses to run. Where one is recorded it
 * stays: in a copy it is that of the original, and only `outbox.restore` makes the copy an installation of its own. Not inside a transaction.
 */
export async function recordCluster(client: Queryable, cluster: string): Promise<void> {
  await client.query('begin');
  try {
    await client.query('set local role outbox_owner');
    await client.query('update outbox.installation set cluster = $1 where cluster is null', [cluster]);
    await client.query('commit');
  } catch (error) {
    // A lost connection rolls back by itself, and the first error says more.
    await client.query('rollback').catch(() => {});
    throw error;
  }
}
