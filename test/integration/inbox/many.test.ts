import { beforeAll, describe, expect, it } from 'vitest';
import type { ManyHandler } from '../../../shared/inbox/index.ts';
import { counterConsumer, createEffects, effectsOf, heldOf, inboxOf } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { drainOf, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
const pool = database.pool('sealed_ledger', 4);
beforeAll(() => createEffects(database));

const message = (counter: string, sequence: number) => fifoRecord(counter, counterEnvelope({ counter, sequence }));
const ten = () => Array.from({ length: 10 }, (_, index) => message(`c${index % 5}`, Math.floor(index / 5) + 1));

type Tx = Parameters<ManyHandler<unknown>['handleMany']>[1]['tx'];
interface Counted {
  readonly aggregateId: string;
  readonly sequence: bigint;
}

/** A consumer whose handler writes the effects of all events of a call by one statement, and does `also` after it. */
function manyConsumer(name: string, also: (events: readonly Counted[], tx: Tx) => Promise<void> = async () => {}) {
  const calls: string[][] = [];
  const handlers = {
    'counter.added': {
      handleMany: async (events: readonly Counted[], { tx }: { tx: Tx }) => {
        calls.push(events.map(({ aggregateId, sequence }) => `${aggregateId} ${sequence}`));
        await tx.query(
          `insert into effect (consumer, counter, sequence)
           select $1, e.counter, e.sequence from unnest($2::text[], $3::bigint[]) e (counter, sequence)`,
          [name, events.map(({ aggregateId }) => aggregateId), events.map(({ sequence }) => sequence.toString())],
        );
        await also(events, tx);
      },
    },
  };
  return { ...counterConsumer({ name, pool, attempts: 1, handlers }), calls };
}

const has = (events: readonly Counted[], counter: string, sequence: bigint): boolean =>
  events.some((event) => event.aggregateId === counter && event.sequence === sequence);

const FAULTS: readonly (readonly [what: string, fault: (tx: Tx) => Promise<void>])[] = [
  ['throws', () => Promise.reject(new Error('no'))],
  ['swallows the error of a statement', async (tx) => void (await tx.query('select 1 / 0').catch(() => {}))],
  ['commits', async (tx) => void (await tx.query('commit').catch(() => {}))],
];

describe('a handler that takes many events', () => {
  it('gets those of a transaction in one call, each aggregate in order, and a message alone as a list of one', async () => {
    const { handler, calls } = manyConsumer('many');
    expect(await invoke(handler, ten())).toEqual([]);
    expect(calls).toHaveLength(1);
    expect(calls[0]?.toSorted()).toEqual(['c0', 'c1', 'c2', 'c3', 'c4'].flatMap((c) => [`${c} 1`, `${c} 2`]));
    for (const counter of ['c0', 'c4']) {
      expect(calls[0]?.filter((each) => each.startsWith(counter))).toEqual([`${counter} 1`, `${counter} 2`]);
    }
    expect(await invoke(handler, [message('c0', 3)])).toEqual([]);
    expect(calls[1]).toEqual(['c0 3']);
    expect(await inboxOf(pool, 'many', 'c0')).toEqual({ processed: 11, position: '3' });
  });

  it('gets nothing of what is repeated or out of order', async () => {
    const { handler, calls } = manyConsumer('many-again');
    const batch = ten();
    expect(await invoke(handler, batch)).toEqual([]);
    expect(
      await invoke(handler, [...batch, message('d', 2), message('d', 3), message('e', 1), message('f', 1)]),
    ).toEqual([]);
    expect(calls.slice(1)).toEqual([['e 1', 'f 1']]);
    expect(await heldOf(pool, 'many-again')).toMatchObject([{ sequence: '2' }, { sequence: '3' }]);
  });

  it.each(FAULTS)(
    'like case 33: and %s for one of them: it alone is held, the others have their effect once',
    async (what, fault) => {
      const name = `many-${what.replaceAll(' ', '-')}`;
      const { handler } = manyConsumer(name, async (events, tx) => {
        if (has(events, 'c3', 1n)) await fault(tx);
      });
      expect(await invoke(handler, ten())).toEqual([]);
      const done = (await effectsOf(pool, name)).map(({ counter, sequence }) => `${counter} ${sequence}`);
      expect(done.toSorted()).toEqual(['c0', 'c1', 'c2', 'c4'].flatMap((counter) => [`${counter} 1`, `${counter} 2`]));
      expect(await heldOf(pool, name)).toMatchObject([
        { counter: 'c3', sequence: '1', reason: 'failing' },
        { counter: 'c3', sequence: '2', reason: 'blocked' },
      ]);
    },
  );

  it('gets held events of an aggregate together, too, and one that fails among them is held alone', async () => {
    const { handler, calls } = manyConsumer('many-held', async (events) => {
      if (has(events, 'c', 5n)) throw new Error('no');
    });
    await invoke(
      handler,
      [2, 3, 4, 5, 6].map((sequence) => message('c', sequence)),
    );
    await invoke(handler, [message('c', 1)]);
    await drainOf(handler);
    expect(calls[1]).toEqual(['c 2', 'c 3', 'c 4', 'c 5', 'c 6']);
    expect((await effectsOf(pool, 'many-held')).map(({ sequence }) => sequence)).toEqual(['1', '2', '3', '4']);
    expect(await heldOf(pool, 'many-held')).toMatchObject([
      { sequence: '5', reason: 'failing' },
      { sequence: '6', reason: 'gap' },
    ]);
  });
});
