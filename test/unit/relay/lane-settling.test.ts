import { describe, expect, it } from 'vitest';
import { PublishError } from '../../../shared/outbox/publish/publish-error.ts';
import type { PublishResult } from '../../../shared/outbox/publish/publisher.ts';
import { type Cursor, START } from '../../../shared/outbox/relay/cursor.ts';
import { aggregates, delivery, LEDGER, letters } from '../../support/delivery.ts';
import { acceptAll, accepted, laneBench, refusing } from '../../support/lane.ts';
import { turn } from '../../support/moved-clock.ts';

const unordered = { ...LEDGER, kind: 'sqs' as const, ordered: false };

describe('the lease', () => {
  it('lets nothing start when it does not outlast a call', async () => {
    const bench = laneBench(acceptAll, { drain: false, mayStart: () => false });
    bench.db.add(...aggregates(letters(10), 3));
    await bench.run(() => bench.turns() > 20);
    expect(bench.calls).toEqual([]);
    expect(bench.db.statements).not.toContain('settle');
  });

  it('lets the partitions that are still held go on, and starts nothing of the others', async () => {
    const bench = laneBench(acceptAll);
    bench.lease.held.delete(1);
    bench.lease.share = 3;
    bench.db.add(
      delivery({ aggregate: 'x', sequence: 1, partition: 1 }),
      delivery({ aggregate: 'y', sequence: 1, partition: 2 }),
    );
    await bench.run();
    expect(bench.calls).toEqual([['y#1']]);
  });

  it('once lost, starts nothing more, and what was acknowledged is settled', async () => {
    const bench = laneBench((messages) => {
      bench.lease.held.clear();
      bench.lease.share = 0;
      return acceptAll(messages, 1);
    });
    bench.db.add(...aggregates(['x'], 3));
    await bench.run(() => bench.db.states()['x#1'] === 'published');
    expect(bench.calls).toEqual([['x#1']]);
    expect(bench.db.states()).toEqual({ 'x#1': 'published', 'x#2': 'pending', 'x#3': 'pending' });
  });

  it('is looked at again before each single message of a call that failed', async () => {
    let left = 3;
    const bench = laneBench(
      (messages) => {
        left -= 1;
        if (messages.length > 1) throw new PublishError('SomethingNew', 'scripted');
        return acceptAll(messages, 1);
      },
      { mayStart: () => left > 0, drain: false },
    );
    bench.db.add(...aggregates(letters(10)));
    await bench.run(() => bench.db.statements.includes('settle'));
    expect(bench.calls.map((call) => call.length)).toEqual([10, 1, 1]);
    expect(Object.values(bench.db.states()).filter((state) => state === 'published')).toHaveLength(2);
  });

  it('lost between two single messages of a call that failed, lets no further one start', async () => {
    const bench = laneBench(
      (messages, call) => {
        if (messages.length > 1) throw new PublishError('SomethingNew', 'scripted');
        if (call === 3) bench.lease.held.set(0, '2');
        return acceptAll(messages, call);
      },
      { drain: false },
    );
    bench.db.add(...aggregates(letters(10)));
    await bench.run(() => bench.calls.length > 3);
    // The single ones of the first call end with the lease; then what is left is read again, and goes together.
    expect(bench.calls.slice(0, 4).map((call) => call.length)).toEqual([10, 1, 1, 8]);
  });

  it('of one partition lost in the middle of a look: what was asked for by name is asked for again', async () => {
    const bench = laneBench(acceptAll);
    bench.db.add(...aggregates(['x'], 25), delivery({ aggregate: 'z', sequence: 1, partition: 1 }));
    bench.db.pause = async (kind) => {
      // The rest of x is looked up by its name: it is longer than a slice.
      if (kind !== 'find' || bench.calls.length < 20 || bench.lease.share === 3) return;
      bench.lease.held.delete(1);
      bench.lease.share = 3;
      for (const before = bench.turns(); bench.turns() < before + 2;) await turn();
    };
    await bench.run();
    expect(bench.lease.share).toBe(3);
    expect(bench.db.states()).toHaveProperty('x#25', 'published');
  });

  it('of one partition lost, the walk goes on; gained, it begins anew', async () => {
    let starts = 0;
    const start = (): Cursor => {
      starts += 1;
      return START;
    };
    const bench = laneBench(acceptAll, { start, drain: false });
    bench.db.add(...aggregates(['x'], 1));
    const after: number[] = [];
    const steps = [() => bench.lease.held.delete(1), () => bench.lease.held.set(1, '5'), () => {}];
    await bench.run(() => {
      if (bench.turns() < 10 * (after.length + 1)) return false;
      after.push(starts);
      steps[after.length - 1]?.();
      return after.length === steps.length;
    });
    expect(after).toEqual([2, 2, 3]);
  });

  it('under another token, everything is read again: what was in memory is not trusted', async () => {
    const hanging = Promise.withResolvers<readonly PublishResult[]>();
    const bench = laneBench((messages, call) => (call === 1 ? hanging.promise : acceptAll(messages, call)), {
      drain: false,
    });
    bench.db.add(...aggregates(['x'], 2), ...aggregates(['y'], 1));
    await bench.run(() => {
      if (bench.lease.held.get(0) === '1' && bench.calls.length === 1) {
        bench.lease.held.set(0, '3'); // somebody else had it meanwhile
        bench.db.rows[1]!.state = 'set_aside';
        bench.db.add(delivery({ aggregate: 'x', sequence: 3 }));
      }
      if (bench.db.statements.filter((kind) => kind === 'find').length > 3) hanging.resolve([accepted, accepted]);
      return bench.db.states()['x#3'] === 'published';
    });
    expect(bench.calls.flat()).not.toContain('x#2');
  });
});

describe('settling', () => {
  it('happens while one call hangs', async () => {
    const hanging = Promise.withResolvers<readonly PublishResult[]>();
    const bench = laneBench((messages) =>
      messages.some(({ eventId }) => eventId === 'slow#1') ? hanging.promise : acceptAll(messages, 1),
    );
    bench.db.add(...aggregates(letters(10)), ...aggregates(['slow']));
    const began = bench.clock.monotonic();
    await bench.run(() => {
      const quick = Object.values(bench.db.states()).filter((state) => state === 'published').length;
      if (quick === 10) {
        expect(bench.clock.monotonic() - began).toBeLessThan(100);
        hanging.resolve([accepted]);
      }
      return false;
    });
    expect(bench.db.states()).toHaveProperty('slow#1', 'published');
  });

  it('takes many outcomes together: few statements for a large backlog', async () => {
    const bench = laneBench(acceptAll);
    bench.db.add(...aggregates(letters(1_000)));
    await bench.run();
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
    expect(bench.db.statements.length).toBeLessThanOrEqual(60);
  });

  it('leaves no call behind when it fails, and no mark on a partition', async () => {
    const hanging = Promise.withResolvers<readonly PublishResult[]>();
    let ended = false;
    const bench = laneBench((messages) =>
      messages.some(({ eventId }) => eventId === 'slow#1') ? hanging.promise : acceptAll(messages, 1),
    );
    bench.db.add(...aggregates(letters(10)), ...aggregates(['slow']));
    bench.db.pause = (kind) => (kind === 'settle' ? Promise.reject(new Error('connection lost')) : undefined);
    const done = bench.run().finally(() => {
      ended = true;
    });
    done.catch(() => {});
    for (let i = 0; i < 100; i += 1) await turn();
    expect(bench.db.statements).toContain('settle');
    expect(ended).toBe(false);
    hanging.resolve([accepted]);
    await expect(done).rejects.toThrow('connection lost');
    expect(bench.lease.busy.size).toBe(0);
  });

  it.each([LEDGER, unordered])(
    'of a parking that the database did not take is followed by another look: it is not forgotten ($kind)',
    async (destination) => {
      const answer = refusing('InvalidMessageContents', (id) => id === 'x#1');
      const bench = laneBench(answer, { drain: false, destination });
      const query = bench.db.query.bind(bench.db);
      let untaken = 1;
      // As when the lease had run out, and was then renewed: nobody else has the partition, and nobody else will look.
      bench.db.query = (text, values) => {
        if (!text.includes('with held as') || untaken-- <= 0) return query(text, values);
        return Promise.resolve({ rows: [], rowCount: 0 });
      };
      bench.db.add(...aggregates(['x']));
      await bench.run(() => bench.db.states()['x#1'] === 'parked');
      expect(bench.calls).toEqual([['x#1'], ['x#1']]);
    },
  );

  it('writes what is in flight before the lane returns, when it is asked to end', async () => {
    const bench = laneBench(
      async (messages) => {
        bench.stop();
        await turn();
        return acceptAll(messages, 1);
      },
      { drain: false },
    );
    bench.db.add(...aggregates(['x'], 2));
    await bench.run();
    expect(bench.calls).toEqual([['x#1']]);
    expect(bench.db.states()).toEqual({ 'x#1': 'published', 'x#2': 'pending' });
    expect(bench.lease.busy.size).toBe(0);
  });

  it('keeps a partition marked from the send until the outcome is written', async () => {
    const bench = laneBench(acceptAll);
    bench.db.add(delivery({ aggregate: 'x', sequence: 1, partition: 2 }));
    const busy: boolean[] = [];
    bench.db.pause = (kind) => {
      if (kind === 'settle') busy.push(bench.lease.busy.has(2));
    };
    await bench.run();
    expect(busy).toEqual([true]);
    expect(bench.lease.busy.size).toBe(0);
  });
});
