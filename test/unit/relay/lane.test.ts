import { describe, expect, it, vi } from 'vitest';
import { PublishError } from '../../../shared/outbox/publish/publish-error.ts';
import { waitFor } from '../../../shared/outbox/relay/circuit.ts';
import { type Log, silentLog } from '../../../shared/telemetry/index.ts';
import { aggregates, delivery, LEDGER, letters } from '../../support/delivery.ts';
import { acceptAll, accepted, type Answer, laneBench, refused, refusing } from '../../support/lane.ts';

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

  it('like case 15: without order, sends several of one aggregate at once, and one refusal holds back no other', async () => {
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
