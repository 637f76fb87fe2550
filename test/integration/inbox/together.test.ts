import { beforeAll, describe, expect, it } from 'vitest';
import {
  counterConsumer,
  createEffects,
  effectHandler,
  effectsOf,
  heldOf,
  inboxOf,
} from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { LateReadySocket } from '../../support/late-ready-socket.ts';
import { contextFor, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(async () => {
  await createEffects(database);
  const migrator = await database.client('sealed_migrator');
  await migrator.query(
    `create table checked_late (fault text);
     grant insert on checked_late to sealed_ledger;
     create function check_late() returns trigger language plpgsql as $$
     begin
       if new.fault = 'unbalanced' then raise exception 'debits are not credits'; end if;
       perform 1 / (case when new.fault = 'divides' then 0 else 1 end);
       return null;
     end $$;
     create constraint trigger checked_late after insert on checked_late
       deferrable initially deferred for each row execute function check_late()`,
  );
});

const message = (counter: string, sequence: number) => fifoRecord(counter, counterEnvelope({ counter, sequence }));
const ten = () => Array.from({ length: 10 }, (_, index) => message(`c${index % 5}`, Math.floor(index / 5) + 1));

/** A consumer that notes the transactions its handlers ran in, and does `also` after its effect. */
function watched(
  name: string,
  also: (
    event: { aggregateId: string; sequence: bigint },
    tx: { query(sql: string): Promise<unknown> },
  ) => Promise<void> = async () => {},
  max = 1,
  attempts = 1,
  more: Parameters<typeof database.pool>[2] = {},
) {
  const pool = database.pool('sealed_ledger', max, more);
  const transactions = new Map<string, string>();
  const made = counterConsumer({
    name,
    pool,
    attempts,
    handlers: {
      'counter.added': async (event, context) => {
        const { rows } = await context.tx.query('select pg_current_xact_id()::text as id');
        transactions.set(`${event.aggregateId} ${event.sequence}`, rows[0].id as string);
        await effectHandler(name)(event, context);
        await also(event, context.tx);
      },
    },
  });
  return { ...made, pool, transactions };
}

type Fault = (tx: { query(sql: string): Promise<unknown> }) => Promise<void>;

const FAULTS: readonly (readonly [what: string, fault: Fault, code: string])[] = [
  ['throws', () => Promise.reject(new Error('no')), 'HANDLER_FAILED'],
  [
    'swallows the error of a statement',
    async (tx) => void (await tx.query('select 1 / 0').catch(() => {})),
    'TRANSACTION_ABORTED',
  ],
  ['commits', async (tx) => void (await tx.query('commit').catch(() => {})), 'TRANSACTION_ENDED'],
  ['commits and begins', async (tx) => void (await tx.query('commit; begin').catch(() => {})), 'TRANSACTION_ENDED'],
  ['rolls back', async (tx) => void (await tx.query('rollback')), 'TRANSACTION_ENDED'],
  ['rolls back and begins', async (tx) => void (await tx.query('rollback; begin')), 'TRANSACTION_ENDED'],
  [
    'is refused at commit',
    async (tx) => void (await tx.query(`insert into checked_late values ('unbalanced')`)),
    'P0001',
  ],
  ['fails at commit', async (tx) => void (await tx.query(`insert into checked_late values ('divides')`)), '22012'],
];

const ARRIVALS: readonly (readonly [arrival: string, more: Parameters<typeof database.pool>[2]])[] = [
  ['as the server sends it', {}],
  ['after the error', { stream: () => new LateReadySocket() }],
];

/** What a handler does after its effect, for one event. */
const faultOf =
  (counter: string, sequence: bigint, fault: Fault) =>
  async (event: { aggregateId: string; sequence: bigint }, tx: Parameters<Fault>[0]): Promise<void> => {
    if (event.aggregateId === counter && event.sequence === sequence) await fault(tx);
  };

describe('messages of a batch', () => {
  it('share one transaction', async () => {
    const { handler, transactions, pool } = watched('shared');
    expect(await invoke(handler, ten())).toEqual([]);
    expect(new Set(transactions.values()).size).toBe(1);
    expect(await effectsOf(pool, 'shared')).toHaveLength(10);
    expect(await inboxOf(pool, 'shared', 'c0')).toEqual({ processed: 10, position: '2' });
  });

  describe.each(ARRIVALS)('where the state of the transaction comes %s', (arrival, more) => {
    it.each(FAULTS)(
      'like case 33: do not suffer from one whose handler %s: it is found, it alone is held, nothing is lost or done twice',
      async (what, fault, code) => {
        const name = `fault-${what.replaceAll(' ', '-')}-${arrival.replaceAll(' ', '-')}`;
        const { handler, pool } = watched(name, faultOf('c3', 1n, fault), 1, 1, more);
        expect(await invoke(handler, ten())).toEqual([]);
        const done = await effectsOf(pool, name);
        expect(done.map(({ counter, sequence }) => `${counter} ${sequence}`).toSorted()).toEqual(
          ['c0', 'c1', 'c2', 'c4'].flatMap((counter) => [`${counter} 1`, `${counter} 2`]),
        );
        expect(await heldOf(pool, name)).toMatchObject([
          { counter: 'c3', sequence: '1', reason: 'failing' },
          { counter: 'c3', sequence: '2', reason: 'blocked' },
        ]);
        const { rows } = await pool.query(
          `select last_error, (select count(*)::int from inbox.processed_event where consumer = $1) as processed
             from inbox.held_event where consumer = $1 and reason = 'failing'`,
          [name],
        );
        expect(rows).toMatchObject([{ last_error: expect.stringContaining(code) as string, processed: 8 }]);
      },
    );

    it.each(FAULTS)(
      'like case 33: nor do held ones that are taken out together with one whose handler %s',
      async (what, fault) => {
        const name = `drain-${what.replaceAll(' ', '-')}-${arrival.replaceAll(' ', '-')}`;
        const { handler, pool } = watched(name, faultOf('c', 2n, fault), 1, 1, more);
        expect(await invoke(handler, [message('c', 2), message('c', 3)])).toEqual([]);
        expect(await invoke(handler, [message('c', 1)])).toEqual([]);
        expect(await effectsOf(pool, name)).toEqual([{ counter: 'c', sequence: '1' }]);
        expect(await heldOf(pool, name)).toMatchObject([
          { sequence: '2', reason: 'failing' },
          { sequence: '3', reason: 'gap' },
        ]);
      },
    );
  });

  it('like case 33: go on in the same invocation, each once, when one of them goes back: no handler runs more than twice', async () => {
    const runs = new Map<string, number>();
    const { handler, pool } = watched(
      'goes-back',
      async ({ aggregateId, sequence }) => {
        const place = `${aggregateId} ${sequence}`;
        runs.set(place, (runs.get(place) ?? 0) + 1);
        if (place === 'c3 1') throw new Error('no');
      },
      1,
      5,
    );
    const batch = ten();
    expect(await invoke(handler, batch)).toEqual([batch[3]!.messageId, batch[8]!.messageId]);
    const effects = (await effectsOf(pool, 'goes-back')).map(({ counter, sequence }) => `${counter} ${sequence}`);
    const others = ['c0', 'c1', 'c2', 'c4'].flatMap((counter) => [`${counter} 1`, `${counter} 2`]);
    expect(effects.toSorted()).toEqual(others);
    expect(Math.max(...runs.values())).toBe(2);
    const { rows } = await pool.query(
      `select count(*)::int as processed, count(distinct event_id)::int as events
         from inbox.processed_event where consumer = 'goes-back'`,
    );
    expect(rows).toEqual([{ processed: 8, events: 8 }]);
  });

  it('are applied one by one when the connection is cut in the middle', async () => {
    const other = database.pool('sealed_ledger');
    let cuts = 1;
    const { handler, pool } = watched('cut-shared', async (event, tx) => {
      if (event.aggregateId !== 'c2' || cuts-- <= 0) return;
      const { rows } = (await tx.query('select pg_backend_pid() as pid')) as { rows: { pid: number }[] };
      await other.query('select pg_terminate_backend($1, 5000)', [rows[0]?.pid]);
    });
    expect(await invoke(handler, ten())).toEqual([]);
    expect(await effectsOf(pool, 'cut-shared')).toHaveLength(10);
  });

  it('like case 34: do not lose their time to one that hangs', async () => {
    const woken = Promise.withResolvers<void>();
    const { handler, pool } = watched(
      'hang-shared',
      async (event) => {
        if (event.aggregateId === 'c0') await woken.promise;
      },
      2,
    );
    await invoke(handler, []);
    const batch = ten();
    const returned = await invoke(handler, batch, contextFor(3_000));
    expect(returned).toEqual([batch[0]!.messageId, batch[5]!.messageId]);
    expect(await effectsOf(pool, 'hang-shared')).toHaveLength(8);
    woken.resolve();
  });

  it('never wait for each other crosswise: two functions get the same aggregates in opposite order', async () => {
    const name = 'crosswise';
    const functions = [1, 2].map(() => watched(name, undefined, 2));
    for (let round = 1; round <= 15; round += 1) {
      const batch = Array.from({ length: 8 }, (_, index) => message(`c${index}`, round));
      const returned = await Promise.all([
        invoke(functions[0]!.handler, batch),
        invoke(functions[1]!.handler, batch.toReversed()),
      ]);
      expect(returned).toEqual([[], []]);
    }
    const deadlocks = functions.flatMap(({ log }) => log.lines.filter(({ fields }) => fields['code'] === '40P01'));
    expect(deadlocks).toEqual([]);
    expect(await effectsOf(functions[0]!.pool, name)).toHaveLength(120);
  });
});
