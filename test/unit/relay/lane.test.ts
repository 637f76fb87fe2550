import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { PublishError } from '../../../shared/outbox/publish/publish-error.ts';
import type { PublishResult } from '../../../shared/outbox/publish/publisher.ts';
import { type Cursor, START } from '../../../shared/outbox/relay/cursor.ts';
import { waitFor } from '../../../shared/outbox/relay/circuit.ts';
import type { Delivery } from '../../../shared/outbox/relay/delivery.ts';
import { type Log, silentLog } from '../../../shared/telemetry/index.ts';
import { delivery, LEDGER } from '../../support/delivery.ts';
import { acceptAll, accepted, type Answer, laneBench, refused, refusing } from '../../support/lane.ts';
import { turn } from '../../support/moved-clock.ts';

/** Some aggregates with the events 1 to `length`. */
function aggregates(names: readonly string[], length = 1): Delivery[] {
  return names.flatMap((aggregate) =>
    Array.from({ length }, (_, index) => delivery({ aggregate, sequence: index + 1 })),
  );
}
const letters = (count: number): string[] => Array.from({ length: count }, (_, index) => `a${index}`);
const unordered = { ...LEDGER, kind: 'sqs' as const, ordered: false };

describe('a lane', () => {
  it('publishes and settles everything once, and ends when nothing is left', async () => {
    const bench = laneBench(acceptAll);
    bench.db.add(...aggregates(letters(25), 2));
    await bench.run();
    expect(bench.calls.flat()).toHaveLength(50);
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
    expect(bench.lease.busy.size).toBe(0);
  });

  it('case 8: never has three of a group in one call, and sends the next only when the one before is accepted', async () => {
    const bench = laneBench(acceptAll);
    bench.db.add(...aggregates(['x', 'y'], 3));
    await bench.run();
    for (const call of bench.calls) expect(new Set(call.map((id) => id.split('#')[0])).size).toBe(call.length);
    const of = (name: string) => bench.calls.flat().filter((id) => id.startsWith(name));
    expect([of('x'), of('y')]).toEqual([
      ['x#1', 'x#2', 'x#3'],
      ['y#1', 'y#2', 'y#3'],
    ]);
  });

  it('case 8: sends nothing of a group after its refused head until that has passed', async () => {
    let refusals = 1;
    const answer: Answer = (messages) =>
      messages.map(({ eventId }) => (eventId === 'x#1' && refusals-- > 0 ? refused('SomethingNew') : accepted));
    const bench = laneBench(answer, { drain: false });
    bench.db.add(...aggregates(['y', 'x'], 3));
    await bench.run(() => bench.db.states()['x#3'] === 'published');
    expect(bench.calls.flat().filter((id) => id.startsWith('x'))).toEqual(['x#1', 'x#1', 'x#2', 'x#3']);
    expect(bench.db.rows[3]).toMatchObject({ state: 'published', attempts: 1 });
  });

  it('case 15: settles nine and retries one when one of ten is refused', async () => {
    const bench = laneBench(refusing('SomethingNew', (id) => id === 'a0#1'));
    bench.db.add(...aggregates(letters(10)));
    await bench.run(() => bench.db.rows[0]!.attempts === 1);
    expect(Object.values(bench.db.states()).filter((state) => state === 'published')).toHaveLength(9);
    // Refused first in the call, charged all the same: the others of the call show that the queue works.
    expect(bench.db.rows[0]).toMatchObject({ state: 'pending', attempts: 1, error: 'SomethingNew: scripted' });
  });

  it('case 16: splits what together is over the limit of a call', async () => {
    const bench = laneBench(acceptAll, {}, 2_000);
    bench.db.add(
      ...letters(4).map((aggregate) => delivery({ aggregate, sequence: 1, data: JSON.stringify('x'.repeat(900)) })),
    );
    await bench.run();
    expect(bench.calls.map((call) => call.length)).toEqual([1, 1, 1, 1]);
  });

  it('parks what the queue cannot take even alone, without sending it or what follows it', async () => {
    const bench = laneBench(acceptAll, {}, 2_000);
    bench.db.add(
      delivery({ aggregate: 'x', sequence: 1, data: JSON.stringify('x'.repeat(3_000)) }),
      delivery({ aggregate: 'x', sequence: 2 }),
      delivery({ aggregate: 'y', sequence: 1 }),
    );
    await bench.run();
    expect(bench.calls).toEqual([['y#1']]);
    expect(bench.db.states()).toEqual({ 'x#1': 'parked', 'x#2': 'blocked', 'y#1': 'published' });
    expect(bench.db.rows[0]!.error).toMatch(/^EventTooLarge: \d+ bytes, the destination takes 2000$/);
  });

  it('parks what can never pass, and blocks what follows, also what is written later', async () => {
    const bench = laneBench(
      refusing('InvalidMessageContents', (id) => id === 'x#1'),
      { drain: false },
    );
    bench.db.add(...aggregates(['x', 'y'], 2));
    let added = false;
    await bench.run(() => {
      if (!added && bench.db.states()['x#2'] === 'blocked') {
        added = true;
        bench.db.add(delivery({ aggregate: 'x', sequence: 3 }));
      }
      return bench.db.states()['x#3'] === 'blocked';
    });
    expect(bench.calls.flat().filter((id) => id.startsWith('x'))).toEqual(['x#1']);
    expect(bench.db.states()).toMatchObject({ 'y#2': 'published' });
  });

  it('sends the envelope under the group of the aggregate, with the event id against repeats', async () => {
    const bench = laneBench(acceptAll);
    bench.db.add(delivery({ aggregate: 'x', sequence: 7, data: '{"total":9007199254740993}' }));
    await bench.run();
    const [message] = bench.messages;
    expect(message).toMatchObject({ eventId: 'x#7', groupId: 'x', deduplicationId: 'x#7', source: '/invoices' });
    expect(message!.body).toContain('"data":{"total":9007199254740993}}');
    expect(JSON.parse(message!.body)).toMatchObject({ id: 'x#7', sequence: '7', subject: 'x' });
    expect(message!.bytes).toBe(Buffer.byteLength(message!.body));
  });

  it('case 18: gives a redriven event another deduplication id and the same event id', async () => {
    const bench = laneBench(acceptAll);
    bench.db.add(delivery({ aggregate: 'x', sequence: 1, run: 2 }));
    await bench.run();
    expect(bench.messages).toMatchObject([{ eventId: 'x#1', deduplicationId: 'x#1-2' }]);
  });

  it('case 56: keeps the groups of two types apart where they share a queue', async () => {
    const bench = laneBench(acceptAll, { destination: { ...LEDGER, groupId: 'aggregate-type-and-id' } });
    const invoice = delivery({ aggregate: '42', sequence: 1 });
    const event = { ...invoice.event, id: 'payment', aggregateType: 'payment' };
    bench.db.add(invoice, { ...invoice, position: '9', eventId: 'payment', key: 'another', event });
    await bench.run();
    expect(bench.messages.map((message) => message.groupId)).toEqual(['invoice/42', 'payment/42']);
  });

  it('without order, sends several of one aggregate at once, and one refusal holds back no other', async () => {
    const bench = laneBench(
      refusing('SomethingNew', (id) => id === 'x#1'),
      { destination: unordered },
    );
    bench.db.add(...aggregates(['x'], 5));
    await bench.run(() => bench.db.rows[0]!.attempts > 0);
    expect(bench.calls[0]).toHaveLength(5);
    expect(Object.values(bench.db.states())).toEqual(['pending', 'published', 'published', 'published', 'published']);
  });
});

describe('when a call fails', () => {
  const throwing =
    (code: string, guilty: string): Answer =>
    (messages, call) => {
      if (messages.some(({ eventId }) => eventId === guilty)) throw new PublishError(code, 'scripted');
      return acceptAll(messages, call);
    };

  it('case 54: resends one by one when nobody knows why, so that one message does not keep nine back', async () => {
    const bench = laneBench(throwing('SomethingNew', 'a3#1'));
    bench.db.add(...aggregates(letters(10)));
    await bench.run(() => bench.db.rows[3]!.attempts > 0);
    expect(bench.calls.slice(0, 11).map((call) => call.length)).toEqual([10, ...Array.from({ length: 10 }, () => 1)]);
    expect(Object.values(bench.db.states()).filter((state) => state === 'published')).toHaveLength(9);
  });

  it('case 54: charges the guilty one even when it is the first', async () => {
    const bench = laneBench(throwing('SomethingNew', 'a0#1'), { drain: false });
    bench.db.add(...aggregates(letters(10)));
    await bench.run(() => bench.db.rows[0]!.attempts > 0);
    expect(Object.values(bench.db.states()).filter((state) => state === 'published')).toHaveLength(9);
  });

  it('parks the one message that makes every call impossible', async () => {
    const bench = laneBench(throwing('InvalidParameterValue', 'a3#1'));
    bench.db.add(...aggregates(letters(10)));
    await bench.run();
    expect(bench.db.states()).toMatchObject({ 'a3#1': 'parked', 'a4#1': 'published' });
  });

  it.each(['RequestThrottled', 'ECONNREFUSED', 'AccessDenied', 'Http503'])(
    'charges nothing, resends nothing and opens the circuit for %s',
    async (code) => {
      const bench = laneBench(() => {
        throw new PublishError(code, 'scripted');
      });
      bench.db.add(...aggregates(letters(100), 2));
      await bench.run();
      // What was already under way when the first answer came, and nothing after it.
      expect(bench.calls.length).toBeLessThanOrEqual(4);
      expect(bench.db.statements).not.toContain('settle');
      expect(waitFor(bench.circuit, bench.clock.monotonic())).toBeGreaterThan(0);
      expect(bench.circuit.failures).toBe(1);
    },
  );

  it.each(['ThrottlingException', 'InternalFailure', 'AccessDeniedException'])(
    'case 53: charges nothing and opens the circuit for %s of one entry, and settles the others',
    async (code) => {
      const bench = laneBench(refusing(code, (id) => id === 'a0#1'));
      bench.db.add(...letters(10).map((aggregate) => delivery({ aggregate, sequence: 1, attempts: 11 })));
      await bench.run();
      expect(bench.db.rows[0]).toMatchObject({ state: 'pending', attempts: 11 });
      expect(Object.values(bench.db.states()).filter((state) => state === 'published')).toHaveLength(9);
      expect(waitFor(bench.circuit, bench.clock.monotonic())).toBeGreaterThan(0);
    },
  );

  it('probes with one message at a time, with another head each time, and goes on when one passes', async () => {
    let down = true;
    const bench = laneBench((messages) => messages.map(() => (down ? refused('RequestThrottled') : accepted)), {
      drain: false,
      concurrency: 1,
    });
    bench.db.add(...aggregates(letters(12)));
    await bench.run(() => {
      if (bench.calls.length >= 5) down = false;
      return Object.values(bench.db.states()).every((state) => state === 'published');
    });
    const probes = bench.calls.slice(1, 5);
    expect(probes.map((call) => call.length)).toEqual([1, 1, 1, 1]);
    expect(new Set(probes.flat()).size).toBe(4);
    expect(bench.circuit).toMatchObject({ failures: 0, openUntil: 0 });
    expect(bench.db.rows.every((row) => row.attempts === 0)).toBe(true);
  });

  it('survives a publisher that throws something of its own, without a word of its message', async () => {
    const warn = vi.fn<Log['warn']>();
    const bench = laneBench(
      () => {
        throw new Error('secret payload');
      },
      { log: { ...silentLog, warn } },
    );
    bench.db.add(...aggregates(['x']));
    await bench.run();
    expect(bench.db.states()).toEqual({ 'x#1': 'pending' });
    expect(warn).toHaveBeenCalledWith(expect.any(String), expect.objectContaining({ code: 'PublisherBug' }));
    expect(JSON.stringify(warn.mock.calls)).not.toContain('secret');
  });

  it('charges nothing when a publisher answers for fewer messages than it was given', async () => {
    const bench = laneBench((messages) => messages.slice(1).map(() => accepted));
    bench.db.add(...aggregates(['x', 'y'], 2));
    await bench.run();
    expect(bench.db.states()).toMatchObject({ 'x#1': 'published', 'y#1': 'pending' });
    expect(bench.db.rows.every((row) => row.attempts === 0)).toBe(true);
  });
});

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

describe('scanning', () => {
  it('case 61: a scan that began before a retry was settled does not send the head again, nor its follower alone', async () => {
    const bench = laneBench(
      refusing('SomethingNew', (id) => id === 'x#1'),
      { drain: false },
    );
    bench.db.add(...aggregates(['x'], 2), ...aggregates(letters(5)));
    const slow = Promise.withResolvers<void>();
    let finds = 0;
    bench.db.pause = (kind) => {
      if (kind !== 'find') return undefined;
      finds += 1;
      // The second scan saw the table before anything was settled, and its answer is late.
      return finds === 2 ? slow.promise : undefined;
    };
    let written = false;
    await bench.run(() => {
      if (finds === 1 && !written) {
        written = true;
        bench.db.add(delivery({ aggregate: 'x', sequence: 3 }));
      }
      if (bench.db.rows[0]!.attempts === 1) slow.resolve();
      return finds > 4;
    });
    expect(bench.db.rows[0]).toMatchObject({ attempts: 1, state: 'pending' });
    expect(bench.calls.flat().filter((id) => id.startsWith('x'))).toEqual(['x#1']);
  });

  it('goes on while calls are under way, and sends nothing twice', async () => {
    const bench = laneBench(async (messages, call) => {
      for (let i = 0; i < 5; i += 1) await turn();
      return acceptAll(messages, call);
    });
    bench.db.add(...aggregates(letters(300), 3));
    await bench.run();
    expect(bench.calls.flat()).toHaveLength(900);
    expect(new Set(bench.calls.flat()).size).toBe(900);
  });

  it('holds no more rows in memory than the window has, and all go in the end', async () => {
    let most = 0;
    let loaded = 0;
    const window = { rows: 60, bytes: 10_000_000, page: 20, rowsOfAggregate: 20 };
    const bench = laneBench(
      async (messages, call) => {
        most = Math.max(most, loaded - bench.calls.flat().length + messages.length);
        await turn();
        return acceptAll(messages, call);
      },
      { window },
    );
    const query = bench.db.query.bind(bench.db);
    bench.db.query = async (text, values) => {
      if (text.includes('outbox.load(')) loaded += ((values ?? [])[0] as string[]).length;
      return query(text, values);
    };
    bench.db.add(...aggregates(letters(20), 50));
    await bench.run();
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
    expect(most).toBeLessThanOrEqual(60);
  });

  it('that asks for as many by name as it may walks on by a step; each fourth by a page, so that a new aggregate is met', async () => {
    const window = { rows: 1_100, bytes: 100_000_000, page: 1_100, rowsOfAggregate: 1 };
    const bench = laneBench(acceptAll, { window, concurrency: 32 });
    // Longer than a slice: of each, the database always has more.
    bench.db.add(...aggregates(letters(1_100), 4));
    await bench.run();
    expect(Object.values(bench.db.states())).toEqual(Array.from({ length: 4_400 }, () => 'published'));
    const full = bench.db.finds.filter(({ wake }) => wake === 500).map(({ page }) => page);
    expect(new Set(full)).toEqual(new Set([1, 1_100]));
    expect(full.filter((page) => page === 1).length).toBeGreaterThan(full.length / 2);
  });

  it('looks up little more than it has room for', async () => {
    const window = { rows: 400, bytes: 10_000_000, page: 20, rowsOfAggregate: 11 };
    const slowly: Answer = async (messages, call) => {
      await turn();
      return acceptAll(messages, call);
    };
    const bench = laneBench(slowly, { window, concurrency: 1 });
    let found = 0;
    const query = bench.db.query.bind(bench.db);
    bench.db.query = async (text, values) => {
      const result = await query(text, values);
      if (text.includes('outbox.find(')) found += result.rows.length;
      return result;
    };
    // Each page meets twenty other aggregates.
    bench.db.add(...aggregates(letters(300), 10).toSorted((a, b) => Number(a.sequence - b.sequence)));
    await bench.run();
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
    // With a look whenever there is room for a page, fifty rows were found for each that was sent.
    expect(found / 3_000).toBeLessThan(5);
  });

  it('has no more than a quarter of its window in flight, but for one call', async () => {
    const mostAtOnce = async (bytes: number): Promise<number> => {
      let flying = 0;
      let most = 0;
      const bench = laneBench(
        async (messages, call) => {
          flying += 1;
          most = Math.max(most, flying);
          await turn();
          flying -= 1;
          return acceptAll(messages, call);
        },
        { concurrency: 4, window: { rows: 2_000, bytes, page: 100, rowsOfAggregate: 20 } },
      );
      bench.db.add(...letters(100).map((aggregate) => delivery({ aggregate, sequence: 1, bytes: 100 })));
      await bench.run();
      expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
      return most;
    };
    expect(await mostAtOnce(10_000_000)).toBe(4);
    expect(await mostAtOnce(4_000)).toBe(1);
  });

  it('holds no more bytes than the window has, but for one message', async () => {
    let held = 0;
    let most = 0;
    const size = 1_000;
    const window = { rows: 2_000, bytes: 10 * size, page: 100, rowsOfAggregate: 20 };
    const bench = laneBench(
      async (messages, call) => {
        most = Math.max(most, held);
        await turn();
        held -= messages.length * size;
        return acceptAll(messages, call);
      },
      { window },
    );
    const query = bench.db.query.bind(bench.db);
    bench.db.query = async (text, values) => {
      if (text.includes('outbox.load(')) held += ((values ?? [])[0] as string[]).length * size;
      return query(text, values);
    };
    bench.db.add(...letters(100).map((aggregate) => delivery({ aggregate, sequence: 1, bytes: size })));
    await bench.run();
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
    expect(most).toBeLessThanOrEqual(11 * size);
  });

  it('gathers what was answered for 50 ms while it polls: each look would wait for the flush of a settlement', async () => {
    const bench = laneBench(acceptAll, { drain: false });
    const settlements = (): number => bench.db.statements.filter((kind) => kind === 'settle').length;
    const end = bench.clock.monotonic() + 500;
    await bench.run(() => {
      const now = bench.clock.monotonic();
      if (now < end - 100) bench.db.add(delivery({ aggregate: `at ${now}`, sequence: 1 }));
      return now >= end;
    });
    expect(bench.calls.length).toBeGreaterThan(20);
    expect(settlements()).toBeLessThanOrEqual(10);
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
  });

  it('a hot aggregate does not keep the others back', async () => {
    const bench = laneBench(acceptAll, { concurrency: 1 });
    bench.db.add(...aggregates(['hot'], 200), ...aggregates(letters(50)));
    await bench.run();
    const last = bench.calls.findLastIndex((call) => call.some((id) => id.startsWith('a')));
    expect(last).toBeLessThan(30);
  });
});

describe('a lane that has nothing to do', () => {
  const turnsIn = async (bench: ReturnType<typeof laneBench>, ms: number): Promise<number> => {
    const done = bench.start();
    for (let passed = 0; passed < 500; passed += 5) await bench.clock.advance(5);
    const before = bench.turns();
    for (let passed = 0; passed < ms; passed += 5) await bench.clock.advance(5);
    const turns = bench.turns() - before;
    bench.stop();
    for (let passed = 0; passed < 1_000; passed += 5) await bench.clock.advance(5);
    await done;
    return turns;
  };

  it('looks four times a second, and does nothing between', async () => {
    expect(await turnsIn(laneBench(acceptAll, { drain: false }), 10_000)).toBeLessThan(120);
  });

  it('does not spin while its destination is away', async () => {
    const bench = laneBench((messages) => messages.map(() => refused('RequestThrottled')), { drain: false });
    bench.db.add(...aggregates(letters(500)));
    expect(await turnsIn(bench, 10_000)).toBeLessThan(200);
    expect(bench.calls.length).toBeLessThan(20);
    expect(bench.db.statements.length).toBeLessThan(20);
  });

  it('does not spin while its window is full and every call hangs', async () => {
    const hanging = Promise.withResolvers<readonly PublishResult[]>();
    const window = { rows: 50, bytes: 10_000_000, page: 20, rowsOfAggregate: 20 };
    const bench = laneBench(() => hanging.promise, { drain: false, window });
    bench.db.add(...aggregates(letters(500)));
    const count = bench.clock;
    const done = bench.start();
    for (let passed = 0; passed < 500; passed += 5) await count.advance(5);
    const before = bench.turns();
    for (let passed = 0; passed < 5_000; passed += 5) await count.advance(5);
    expect(bench.turns() - before).toBeLessThan(50);
    bench.stop();
    hanging.resolve(Array.from({ length: 10 }, () => accepted));
    for (let passed = 0; passed < 1_000; passed += 5) await count.advance(5);
    await done;
  });

  it('does not spin while everything waits for a retry', async () => {
    const bench = laneBench(
      refusing('SomethingNew', (id) => id.startsWith('bad')),
      {
        drain: false,
        policy: { attempts: 100, baseMs: 60_000, capMs: 60_000 },
      },
    );
    bench.db.add(...aggregates(['good', ...letters(100).map((name) => `bad${name}`)]));
    expect(await turnsIn(bench, 10_000)).toBeLessThan(120);
  });
});

describe('calls at once', () => {
  it('are as many as allowed, and never more', async () => {
    let inFlight = 0;
    let most = 0;
    const bench = laneBench(
      async (messages) => {
        inFlight += 1;
        most = Math.max(most, inFlight);
        await turn();
        inFlight -= 1;
        return acceptAll(messages, 1);
      },
      { concurrency: 3 },
    );
    bench.db.add(...aggregates(letters(100), 2));
    await bench.run();
    expect(most).toBe(3);
  });

  it('keep the order of each aggregate and lose nothing, whatever the queue answers and when', async () => {
    const answers = fc.constantFrom(
      'accept',
      'accept',
      'accept',
      'accept',
      'SomethingNew',
      'RequestThrottled',
      'InvalidMessageContents',
      'call',
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ aggregate: fc.constantFrom(...letters(8)), late: fc.boolean() }), { maxLength: 40 }),
        fc.array(fc.record({ answer: answers, delay: fc.nat(3) }), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 4 }),
        async (events, script, concurrency) => {
          const acknowledged: string[] = [];
          const breaks: string[] = [];
          let step = 0;
          let calm = false;
          const next = () => (calm ? { answer: 'accept', delay: 0 } : script[step++ % script.length]!);
          const window = { rows: 30, bytes: 10_000_000, page: 7, rowsOfAggregate: 3 };
          const bench = laneBench(
            async (messages) => {
              for (const { eventId } of messages) {
                const [aggregate, sequence] = eventId.split('#');
                for (let lower = 1; lower < Number(sequence); lower += 1) {
                  if (!acknowledged.includes(`${aggregate}#${lower}`)) breaks.push(`${eventId} before #${lower}`);
                }
              }
              const { delay, answer } = next();
              for (let turns = 0; turns < delay; turns += 1) await turn();
              if (answer === 'call') throw new PublishError('SomethingNew', 'scripted');
              return messages.map(({ eventId }) => {
                const { answer: own } = next();
                if (own !== 'accept' && own !== 'call') return refused(own);
                acknowledged.push(eventId);
                return accepted;
              });
            },
            { concurrency, window, drain: false, policy: { attempts: 50, baseMs: 10, capMs: 20 } },
          );
          const counts = new Map<string, number>();
          const writtenLater = new Set<string>();
          const rows = events.map((event) => {
            const { aggregate } = event;
            // The stream's lock: what comes after a late one is late as well.
            if (event.late) writtenLater.add(aggregate);
            counts.set(aggregate, (counts.get(aggregate) ?? 0) + 1);
            return {
              late: writtenLater.has(aggregate),
              row: delivery({ aggregate, sequence: counts.get(aggregate)! }),
            };
          });
          const late = rows.filter((one) => one.late);
          bench.db.add(...rows.filter((one) => !one.late).map((one) => one.row));
          let rounds = 0;
          await bench.run(() => {
            rounds += 1;
            if (rounds > 3 && late.length > 0) bench.db.add(late.shift()!.row);
            if (rounds > 100) calm = true;
            const states = Object.values(bench.db.states());
            const left = states.filter((state) => state === 'pending').length + late.length;
            return left === 0 || rounds > 3_000;
          });
          expect(breaks).toEqual([]);
          for (const { delivery: row, state } of bench.db.rows) {
            expect(state, row.eventId).toMatch(/published|parked|blocked/);
            if (state === 'published') expect(acknowledged).toContain(row.eventId);
          }
          for (const call of bench.calls) {
            expect(call.length).toBeLessThanOrEqual(10);
            expect(new Set(call.map((id) => id.split('#')[0])).size).toBe(call.length);
          }
        },
      ),
      { numRuns: 40 },
    );
  });
});
