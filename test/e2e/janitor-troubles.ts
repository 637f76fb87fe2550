import {
  GetFunctionConfigurationCommand,
  type LambdaClient,
  UpdateFunctionConfigurationCommand,
} from '@aws-sdk/client-lambda';
import type { LocalCloud } from '../../local/cloud.ts';
import { asSuperuser } from '../../local/postgres.ts';
import type { Seen } from './troubles.ts';
import { until } from './until.ts';
import { command } from './watching.ts';

/** What an operator does, and its answer. */
async function act(reason: string, words: string): Promise<Record<string, unknown>> {
  const { stdout, stderr } = await command('ops', ...words.split(' '), '--reason', reason, '--yes', '--json');
  const answer = JSON.parse(stdout === '' ? '{}' : stdout) as { ok?: boolean; result: Record<string, unknown> };
  if (answer.ok !== true) throw new Error(`${words}: ${stdout}${stderr}`);
  return answer.result;
}

/** An event that was published long ago and lies where the oldest lie, before all that the janitor has passed. */
const OLD = '01900000-0000-7000-8000-000000000002';

/** Has somebody start a replay, let it rest and forget it: until it is cancelled no event may go, however old. */
export async function forgetReplay({ database }: LocalCloud, seen: Seen): Promise<void> {
  const { number } = await act('to be looked at tomorrow', 'replay start ledger --aggregate-type invoice --paused');
  await asSuperuser(database, database.name, async (db) => {
    await db.query(
      `insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, occurred_at)
       values ($1, 'invoice', 'old', 2, 'invoice.issued', 1, '{}', '2026-01-02')`,
      [OLD],
    );
    await db.query(
      `insert into outbox.delivery (event_id, aggregate_key, sequence, destination, partition, bytes, state, created_at, published_at, position)
       overriding system value
       select $1, outbox.aggregate_key('invoice', 'old'), 2, min(number), 0, 1, 'published', '2026-01-02', '2026-01-02',
              (select min(position) - 1 from outbox.delivery)
         from outbox.destination`,
      [OLD],
    );
    // The hour after which a walk begins anew.
    await db.query(`update outbox.walk set swept_at = swept_at - interval '1 hour'`);
  });
  try {
    await seen();
  } finally {
    await act('nobody needs it', `replay cancel ${String(number)}`);
  }
  await until(
    'the old event is gone',
    async () =>
      asSuperuser(database, database.name, async (db) => {
        const { rowCount } = await db.query('select from outbox.event where id = $1', [OLD]);
        return rowCount === 0 ? true : undefined;
      }),
    20_000,
  );
}

/** Takes from the janitor the right to delete dedupe rows, as somebody may who mends something else, and gives it back. */
export async function takeRight({ database }: LocalCloud, seen: Seen): Promise<void> {
  const execute = async (what: string): Promise<unknown> =>
    asSuperuser(database, database.name, async (db) => db.query(what));
  const right = 'execute on function inbox.prune(text, uuid, interval, integer)';
  await execute(`revoke ${right} from inbox_janitor`);
  try {
    await seen();
  } finally {
    await execute(`grant ${right} to inbox_janitor`);
  }
}

/**
 * Damages the key of a person in the vault, where nobody notices, and has an operator replace the keys that the janitor then cannot do without: the branch key that wraps it, and
 * that of the index over what it seals. Days go by. At the end the key is brought back, as from a backup.
 */
export async function damageKey(
  { database, outputs }: LocalCloud,
  lambda: LambdaClient,
  subject: string,
): Promise<{ readonly bringBack: () => Promise<void> }> {
  const one = async (sql: string, ...values: unknown[]): Promise<Record<string, unknown> | undefined> =>
    asSuperuser(database, database.name, async (db) => (await db.query(sql, values)).rows[0]);
  const put = (bytes: string): string =>
    `update vault.subject_key set wrapped = ${bytes} where class = 'contact' and subject_id = $1`;
  const kept = await one(`select wrapped from vault.subject_key where class = 'contact' and subject_id = $1`, subject);
  await one(put('set_byte(wrapped, 40, get_byte(wrapped, 40) # 1)'), subject);

  await Promise.all(
    ['rotate contact', 'rotate-index customer-email'].map((words) => act('may have become known', words)),
  );
  const letDaysPass = async (): Promise<void> => {
    await one(`update vault.branch_key set retired_at = retired_at - interval '2 days' where state = 'retired'`);
    await one(`update vault.index_key set state_since = state_since - interval '2 days' where state <> 'destroyed'`);
  };
  const janitorHas = async (what: string, condition: string): Promise<unknown> =>
    until(`the janitor has ${what}`, async () => one(`select where ${condition}`), 30_000);
  await janitorHas(
    'added both keys',
    `exists (select from vault.branch_key where class = 'contact' and state = 'retired') and exists (select from vault.index_key where state = 'next')`,
  );
  await letDaysPass();
  await janitorHas(
    'gone over to the new key of the index',
    `exists (select from vault.index_key where state = 'retired')`,
  );
  await letDaysPass();
  // A process that knows the keys of before would be days old as well: as after a deployment there is none.
  const FunctionName = outputs['ApiFunctionName'];
  const { Timeout } = await lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
  await lambda.send(new UpdateFunctionConfigurationCommand({ FunctionName, Timeout }));
  return { bringBack: async () => void (await one(put('$2'), subject, kept?.['wrapped'])) };
}

/** Deploys a column of persons that may not be empty, for which nobody can be erased, and takes that back. */
export async function keepColumn({ database }: LocalCloud, seen: Seen): Promise<void> {
  const alter = async (how: 'set' | 'drop'): Promise<unknown> =>
    asSuperuser(database, database.name, async (db) =>
      db.query(`alter table sample.customer alter column address ${how} not null`),
    );
  await alter('set');
  try {
    await seen();
  } finally {
    await alter('drop');
  }
}
