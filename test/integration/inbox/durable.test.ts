import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, expect, it } from 'vitest';
import { handlerSteps, skipHeld } from '../../../shared/inbox/index.ts';
import { counterConsumer, createEffects, effectHandler } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
const migrator = database.pool('sealed_migrator');
const pool = database.pool('sealed_ledger');

beforeAll(async () => {
  // No session from here on waits for the disk by itself.
  const superuser = await database.superuser();
  const { rows } = await superuser.query('select quote_ident(current_database()) as name');
  await superuser.query(`alter database ${rows[0].name} set synchronous_commit = off`);
  await createEffects(database);
  await migrator.query(
    `create table commits (of text, setting text);
     grant insert on commits to public;
     create function note_commit() returns trigger language plpgsql as $$
       begin insert into public.commits values (tg_table_name, current_setting('synchronous_commit')); return null; end $$`,
  );
  for (const table of ['effect', 'inbox.processed_event', 'inbox.held_event', 'inbox.external_call', 'inbox.audit']) {
    await migrator.query(
      `create constraint trigger note after insert or update on ${table} deferrable initially deferred
         for each row execute function note_commit()`,
    );
  }
});
beforeEach(() => migrator.query('truncate commits'));

/** What was committed, and how. */
const commits = async (): Promise<string[]> => {
  const { rows } = await migrator.query('select distinct of, setting from commits order by of');
  return rows.map(({ of, setting }) => `${of} ${setting}`);
};
const message = (counter: string, sequence: number) =>
  fifoRecord(counter, counterEnvelope({ counter, sequence, id: randomUUID() }));

it('like case 34: an effect is on the disk before its message is acknowledged, whatever the session or the handler has set', async () => {
  const { handler } = counterConsumer({
    name: 'durable',
    pool,
    handlers: {
      'counter.added': async (event, context) => {
        await effectHandler('durable')(event, context);
        await context.tx.query('set local synchronous_commit = off');
      },
    },
  });
  expect(await invoke(handler, [message('a', 1), message('b', 1)])).toEqual([]);
  expect(await commits()).toEqual(['effect on', 'processed_event on']);
});

it('so is what is held instead, and what an operator decides about it', async () => {
  const { handler } = counterConsumer({
    name: 'durable-held',
    pool,
    attempts: 2,
    handlers: { 'counter.added': () => Promise.reject(new Error('as the test wants it')) },
  });
  const failing = message('a', 1);
  expect(await invoke(handler, [failing])).toHaveLength(1);
  expect(await commits()).toEqual(['held_event on']);
  expect(await invoke(handler, [fifoRecord('a', '{}')])).toEqual([]);
  expect(await commits()).toEqual(['held_event on']);
  await invoke(handler, [failing]);
  const { id } = JSON.parse(failing.body) as { id: string };
  await skipHeld(database.pool('sealed_operator'), 'durable-held', id, 'it is wrong');
  expect((await commits()).filter((each) => each.endsWith('off'))).toEqual([]);
  expect(await commits()).toContain('audit on');
});

it('so is the reservation of a call of another system, before the call', async () => {
  const seen: string[][] = [];
  const { handler } = counterConsumer({
    name: 'durable-call',
    pool,
    handlers: {
      'counter.added': handlerSteps({
        before: (_, { once }) =>
          once(
            'mail',
            async () => {
              seen.push(await commits());
              return 'sent';
            },
            { unanswered: 'retry' },
          ),
        handle: async () => {},
      }),
    },
  });
  expect(await invoke(handler, [message('a', 1)])).toEqual([]);
  expect(seen).toEqual([['external_call on']]);
  expect(await commits()).toEqual(['external_call on', 'processed_event on']);
});
