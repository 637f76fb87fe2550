import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { PublishError } from '../../../shared/outbox/publish/publish-error.ts';
import type { Message, Publisher, PublishResult } from '../../../shared/outbox/publish/publisher.ts';
import { closedCircuit, waitFor } from '../../../shared/outbox/relay/circuit.ts';
import type { Delivery } from '../../../shared/outbox/relay/delivery.ts';
import { RETRY_POLICY } from '../../../shared/outbox/relay/outcome.ts';
import { type Sending, sendWindow } from '../../../shared/outbox/relay/send.ts';
import type { Settled } from '../../../shared/outbox/relay/settle.ts';
import { type Log, silentLog } from '../../../shared/telemetry/index.ts';
import { delivery, LEDGER } from '../../support/delivery.ts';
import { type MovedClock, movedClock, turn } from '../../support/moved-clock.ts';

type Answer = (
  messages: readonly Message[],
  call: number,
) => readonly PublishResult[] | Promise<readonly PublishResult[]>;

const accepted: PublishResult = { ok: true, messageId: 'm' };
const refused = (code: string): PublishResult => ({ ok: false, code, reason: 'scripted' });
const acceptAll: Answer = (messages) => messages.map(() => accepted);

/** Some aggregates with the events 1 to `length`. */
function aggregates(names: readonly string[], length = 1): Delivery[] {
  return names.flatMap((aggregate) =>
    Array.from({ length }, (_, index) => delivery({ aggregate, sequence: index + 1 })),
  );
}
const letters = (count: number): string[] => Array.from({ length: count }, (_, index) => `a${index}`);

interface Bench {
  readonly clock: MovedClock;
  readonly sending: Sending;
  /** Event ids of each call, as they were made. */
  readonly calls: string[][];
  /** What each settle wrote. */
  readonly settles: (readonly Settled[])[];
  /** Event id and outcome of everything settled. */
  readonly outcomes: () => Record<string, string>;
}

/** A window sent to a queue that answers as scripted. */
function bench(answer: Answer, change: Partial<Sending> = {}, bytes = 1_000_000): Bench {
  const clock = movedClock();
  const calls: string[][] = [];
  const settles: (readonly Settled[])[] = [];
  const publisher: Publisher = {
    limits: { entries: 10, bytes, timeoutMs: 5_000 },
    preflight: () => Promise.resolve(),
    publish: async (messages) => {
      calls.push(messages.map((message) => message.eventId));
      return answer(messages, calls.length);
    },
    close() {},
  };
  const sending: Sending = {
    destination: LEDGER,
    publisher,
    circuit: closedCircuit(),
    clock,
    random: () => 0.5,
    policy: RETRY_POLICY,
    log: silentLog,
    concurrency: 4,
    mayStart: () => true,
    settle: (entries) => {
      if (entries.length > 0) settles.push(entries);
      return Promise.resolve();
    },
    ...change,
  };
  const outcomes = () =>
    Object.fromEntries(settles.flat().map(({ delivery: { event }, outcome }) => [event.id, outcome.kind]));
  return { clock, sending, calls, settles, outcomes };
}

describe('sending a window', () => {
  it('publishes and settles everything once', async () => {
    const { sending, calls, settles, outcomes } = bench(acceptAll);
    await sendWindow(aggregates(letters(25), 2), sending);
    expect(calls.flat()).toHaveLength(50);
    expect(settles.flat()).toHaveLength(50);
    expect(new Set(Object.values(outcomes()))).toEqual(new Set(['published']));
  });

  it('case 8: never has three of a group in one call, and sends the next only when the one before is accepted', async () => {
    const { sending, calls } = bench(acceptAll);
    await sendWindow(aggregates(['x', 'y'], 3), sending);
    expect(calls).toEqual([
      ['x#1', 'y#1'],
      ['x#2', 'y#2'],
      ['x#3', 'y#3'],
    ]);
  });

  it('case 8: sends nothing of a group after its refused head', async () => {
    const { sending, calls, outcomes } = bench((messages) =>
      messages.map(({ eventId }) => (eventId === 'x#1' ? refused('SomethingNew') : accepted)),
    );
    await sendWindow(aggregates(['x', 'y'], 3), sending);
    expect(calls.flat()).toEqual(['x#1', 'y#1', 'y#2', 'y#3']);
    expect(outcomes()).toEqual({ 'x#1': 'retry', 'y#1': 'published', 'y#2': 'published', 'y#3': 'published' });
  });

  it('case 15: settles nine and retries one when one of ten is refused', async () => {
    const { sending, settles, outcomes } = bench((messages) =>
      messages.map(({ eventId }) => (eventId === 'a0#1' ? refused('SomethingNew') : accepted)),
    );
    await sendWindow(aggregates(letters(10)), sending);
    const kinds = Object.values(outcomes());
    expect(kinds.filter((kind) => kind === 'published')).toHaveLength(9);
    const retried = settles.flat().find(({ outcome }) => outcome.kind === 'retry');
    // Refused first in the call, charged all the same: the others of the call show that the queue works.
    expect(retried).toMatchObject({
      delivery: { event: { id: 'a0#1' } },
      outcome: { delayMs: 500, error: 'SomethingNew: scripted' },
    });
  });

  it('case 16: splits what together is over the limit of a call', async () => {
    const window = letters(4).map((aggregate) =>
      delivery({ aggregate, sequence: 1, data: JSON.stringify('x'.repeat(900)) }),
    );
    const { sending, calls, outcomes } = bench(acceptAll, {}, 2_000);
    await sendWindow(window, sending);
    expect(calls.map((call) => call.length)).toEqual([1, 1, 1, 1]);
    expect(Object.values(outcomes())).toEqual(['published', 'published', 'published', 'published']);
  });

  it('parks what the queue cannot take even alone, without sending it or what follows it', async () => {
    const large = delivery({ aggregate: 'x', sequence: 1, data: JSON.stringify('x'.repeat(3_000)) });
    const { sending, calls, settles } = bench(acceptAll, {}, 2_000);
    await sendWindow(
      [large, delivery({ aggregate: 'x', sequence: 2 }), delivery({ aggregate: 'y', sequence: 1 })],
      sending,
    );
    expect(calls).toEqual([['y#1']]);
    expect(settles.flat()).toContainEqual({
      delivery: large,
      outcome: {
        kind: 'parked',
        error: expect.stringMatching(/^EventTooLarge: \d+ bytes, the destination takes 2000$/),
      },
    });
  });

  it('parks what can never pass, and sends nothing of its group after it', async () => {
    const { sending, calls, outcomes } = bench((messages) =>
      messages.map(({ eventId }) => (eventId === 'x#1' ? refused('InvalidMessageContents') : accepted)),
    );
    await sendWindow(aggregates(['x', 'y'], 2), sending);
    expect(calls.flat()).not.toContain('x#2');
    expect(outcomes()).toEqual({ 'x#1': 'parked', 'y#1': 'published', 'y#2': 'published' });
  });

  it('sends the envelope under the group of the aggregate, with the event id against repeats', async () => {
    const seen: Message[] = [];
    const { sending } = bench((messages) => {
      seen.push(...messages);
      return acceptAll(messages, 1);
    });
    await sendWindow([delivery({ aggregate: 'x', sequence: 7, data: '{"total":9007199254740993}' })], sending);
    const [message] = seen as [Message];
    expect(message).toMatchObject({ eventId: 'x#7', groupId: 'x', deduplicationId: 'x#7', source: '/invoices' });
    expect(message.body).toContain('"data":{"total":9007199254740993}}');
    expect(JSON.parse(message.body)).toMatchObject({ id: 'x#7', sequence: '7', subject: 'x' });
    expect(message.bytes).toBe(Buffer.byteLength(message.body));
  });

  it('case 18: gives a redriven event another deduplication id and the same event id', async () => {
    const seen: Message[] = [];
    const { sending } = bench((messages) => {
      seen.push(...messages);
      return acceptAll(messages, 1);
    });
    await sendWindow([delivery({ aggregate: 'x', sequence: 1, run: 2 })], sending);
    expect(seen).toMatchObject([{ eventId: 'x#1', deduplicationId: 'x#1-2' }]);
  });

  it('case 56: keeps the groups of two types apart where they share a queue', async () => {
    const groups: string[] = [];
    const answer: Answer = (messages) => {
      groups.push(...messages.map((message) => message.groupId));
      return acceptAll(messages, 1);
    };
    const { sending } = bench(answer, { destination: { ...LEDGER, groupId: 'aggregate-type-and-id' } });
    const invoice = delivery({ aggregate: '42', sequence: 1 });
    const payment = { ...invoice, aggregateKey: 'another', event: { ...invoice.event, aggregateType: 'payment' } };
    await sendWindow([invoice, payment], sending);
    expect(groups).toEqual(['invoice/42', 'payment/42']);
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
    const { sending, calls, outcomes } = bench(throwing('SomethingNew', 'a3#1'));
    await sendWindow(aggregates(letters(10)), sending);
    expect(calls.map((call) => call.length)).toEqual([10, ...Array.from({ length: 10 }, () => 1)]);
    expect(outcomes()).toMatchObject({ 'a0#1': 'published', 'a3#1': 'retry', 'a9#1': 'published' });
    expect(Object.values(outcomes())).toHaveLength(10);
  });

  it('case 54: charges the guilty one even when it is the first, at the latest in the next window', async () => {
    const { sending, outcomes } = bench(throwing('SomethingNew', 'a0#1'));
    const window = aggregates(letters(10));
    await sendWindow(window, sending);
    expect(Object.values(outcomes())).toEqual(Array.from({ length: 9 }, () => 'published'));
    await sendWindow(window.slice(0, 1), sending);
    expect(outcomes()).toMatchObject({ 'a0#1': 'retry' });
  });

  it('parks the one message that makes every call impossible', async () => {
    const { sending, outcomes } = bench(throwing('InvalidParameterValue', 'a3#1'));
    await sendWindow(aggregates(letters(10)), sending);
    expect(outcomes()).toMatchObject({ 'a3#1': 'parked', 'a4#1': 'published' });
  });

  it.each(['RequestThrottled', 'ECONNREFUSED', 'AccessDenied', 'Http503'])(
    'charges nothing, resends nothing and opens the circuit for %s',
    async (code) => {
      const { sending, calls, settles, clock } = bench(() => {
        throw new PublishError(code, 'scripted');
      });
      await sendWindow(aggregates(letters(100), 2), sending);
      // What was already under way when the first answer came, and nothing after it.
      expect(calls.length).toBeLessThanOrEqual(sending.concurrency);
      expect(settles).toEqual([]);
      expect(waitFor(sending.circuit, clock.monotonic())).toBeGreaterThan(0);
      expect(sending.circuit.failures).toBe(1);
    },
  );

  it.each(['ThrottlingException', 'InternalFailure', 'AccessDeniedException'])(
    'case 53: charges nothing and opens the circuit for %s of one entry, and settles the others',
    async (code) => {
      const { sending, outcomes, clock } = bench((messages) =>
        messages.map(({ eventId }) => (eventId === 'a0#1' ? refused(code) : accepted)),
      );
      const window = aggregates(letters(10)).map((row) => ({ ...row, attempts: 11 }));
      await sendWindow(window, sending);
      expect(outcomes()).not.toHaveProperty('a0#1');
      expect(Object.values(outcomes())).toEqual(Array.from({ length: 9 }, () => 'published'));
      expect(waitFor(sending.circuit, clock.monotonic())).toBeGreaterThan(0);
    },
  );

  it('takes an unknown code for an outage while nothing passes', async () => {
    const { sending, settles } = bench((messages) => messages.map(() => refused('SomethingNew')));
    await sendWindow(aggregates(letters(10)), sending);
    expect(settles).toEqual([]);
    expect(sending.circuit.failures).toBe(1);
  });

  it('charges an unknown code for a minute after another message passed', async () => {
    const { sending, clock, settles } = bench((messages) =>
      messages.map(({ eventId }) => (eventId.startsWith('bad') ? refused('SomethingNew') : accepted)),
    );
    await sendWindow(aggregates(['good']), sending);
    await clock.advance(59_000);
    await sendWindow(aggregates(['bad1']), sending);
    await clock.advance(2_000);
    await sendWindow(aggregates(['bad2']), sending);
    expect(settles.flat().map(({ delivery: { event }, outcome }) => [event.id, outcome.kind])).toEqual([
      ['good#1', 'published'],
      ['bad1#1', 'retry'],
    ]);
  });

  it('closes the circuit again when a message passes', async () => {
    let down = true;
    const { sending, clock } = bench((messages) => messages.map(() => (down ? refused('RequestThrottled') : accepted)));
    await sendWindow(aggregates(['x']), sending);
    await clock.advance(30_000);
    down = false;
    await sendWindow(aggregates(['x']), sending);
    expect(sending.circuit).toMatchObject({ failures: 0, openUntil: 0 });
  });

  it('survives a publisher that throws something of its own, without a word of its message', async () => {
    const warn = vi.fn<Log['warn']>();
    const { sending, settles } = bench(
      () => {
        throw new Error('secret payload');
      },
      { log: { ...silentLog, warn } },
    );
    await sendWindow(aggregates(['x']), sending);
    expect(settles).toEqual([]);
    expect(warn).toHaveBeenCalledWith(expect.any(String), expect.objectContaining({ code: 'PublisherBug' }));
    expect(JSON.stringify(warn.mock.calls)).not.toContain('secret');
  });

  it('ends even when a publisher answers for fewer messages than it was given', async () => {
    const { sending, outcomes } = bench((messages) => messages.slice(1).map(() => accepted));
    await sendWindow(aggregates(['x', 'y'], 2), sending);
    expect(outcomes()).toMatchObject({ 'x#1': 'published' });
    expect(outcomes()).not.toHaveProperty('y#1');
  });
});

describe('the lease while sending', () => {
  it('starts nothing without it, and writes nothing', async () => {
    const { sending, calls, settles } = bench(acceptAll, { mayStart: () => false });
    await sendWindow(aggregates(letters(10), 3), sending);
    expect([calls, settles]).toEqual([[], []]);
  });

  it('lets the partitions that are still held go on', async () => {
    const { sending, calls } = bench(acceptAll, { mayStart: (partition) => partition !== 1 });
    const lost = delivery({ aggregate: 'x', sequence: 1, partition: 1 });
    await sendWindow([lost, delivery({ aggregate: 'y', sequence: 1, partition: 2 })], sending);
    expect(calls).toEqual([['y#1']]);
  });

  it('starts nothing more once it is lost, and settles what was acknowledged', async () => {
    let held = true;
    const { sending, calls, outcomes } = bench(
      (messages) => {
        held = false;
        return acceptAll(messages, 1);
      },
      { mayStart: () => held },
    );
    await sendWindow(aggregates(['x'], 3), sending);
    expect(calls).toEqual([['x#1']]);
    expect(outcomes()).toEqual({ 'x#1': 'published' });
  });

  it('is looked at again before each single message of a call that failed', async () => {
    let left = 3;
    const { sending, calls, settles } = bench(
      (messages) => {
        left -= 1;
        if (messages.length > 1) throw new PublishError('SomethingNew', 'scripted');
        return acceptAll(messages, 1);
      },
      { mayStart: () => left > 0 },
    );
    await sendWindow(aggregates(letters(10)), sending);
    expect(calls.map((call) => call.length)).toEqual([10, 1, 1]);
    expect(settles.flat()).toHaveLength(2);
  });
});

describe('settling while sending', () => {
  it('happens within a quarter of a second, though one call hangs', async () => {
    const hanging = Promise.withResolvers<readonly PublishResult[]>();
    const { sending, clock, outcomes } = bench((messages) =>
      messages.some(({ eventId }) => eventId === 'slow#1') ? hanging.promise : acceptAll(messages, 1),
    );
    const quick = aggregates(letters(10));
    const done = sendWindow([...quick, ...aggregates(['slow'])], sending);
    await turn();
    await clock.advance(249);
    expect(outcomes()).toEqual({});
    await clock.advance(1);
    expect(Object.keys(outcomes())).toHaveLength(10);
    hanging.resolve([accepted]);
    await done;
    expect(outcomes()).toHaveProperty('slow#1', 'published');
  });

  it('happens as soon as 200 outcomes have come together', async () => {
    const { sending, settles } = bench(acceptAll, { concurrency: 1 });
    await sendWindow(aggregates(letters(450)), sending);
    expect(settles.map((entries) => entries.length)).toEqual([200, 200, 50]);
  });

  it('leaves no call behind when it fails', async () => {
    const hanging = Promise.withResolvers<readonly PublishResult[]>();
    const { sending, clock } = bench(
      (messages) => (messages.some(({ eventId }) => eventId === 'slow#1') ? hanging.promise : acceptAll(messages, 1)),
      { settle: () => Promise.reject(new Error('connection lost')) },
    );
    let ended = false;
    const done = sendWindow([...aggregates(letters(10)), ...aggregates(['slow'])], sending).finally(
      () => (ended = true),
    );
    done.catch(() => {});
    await turn();
    await clock.advance(1_000);
    expect(ended).toBe(false);
    hanging.resolve([accepted]);
    await expect(done).rejects.toThrow('connection lost');
  });
});

describe('sending at once', () => {
  it('has as many calls in flight as allowed, and never more', async () => {
    let inFlight = 0;
    let most = 0;
    const { sending } = bench(
      async (messages) => {
        inFlight += 1;
        most = Math.max(most, inFlight);
        await turn();
        inFlight -= 1;
        return acceptAll(messages, 1);
      },
      { concurrency: 3 },
    );
    await sendWindow(aggregates(letters(100), 2), sending);
    expect(most).toBe(3);
  });

  it('keeps the order of each aggregate and settles each outcome once, whatever the queue answers and when', async () => {
    const answers = fc.constantFrom(
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
        fc.uniqueArray(
          fc.record({ aggregate: fc.constantFrom(...letters(15)), sequence: fc.integer({ min: 1, max: 6 }) }),
          {
            selector: ({ aggregate, sequence }) => `${aggregate}#${sequence}`,
            maxLength: 60,
          },
        ),
        fc.array(fc.record({ answer: answers, delay: fc.nat(3) }), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 1, max: 5 }),
        async (rows, script, concurrency) => {
          const acknowledged: string[] = [];
          let step = 0;
          const next = () => script[step++ % script.length]!;
          const { sending, calls, settles } = bench(
            async (messages) => {
              for (const { eventId } of messages) {
                const [aggregate, sequence] = eventId.split('#');
                const lower = rows.filter((row) => row.aggregate === aggregate && row.sequence < Number(sequence));
                for (const row of lower) expect(acknowledged).toContain(`${row.aggregate}#${row.sequence}`);
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
            { concurrency },
          );
          await sendWindow(
            rows.map((row) => delivery(row)),
            sending,
          );

          for (const call of calls) {
            expect(call.length).toBeLessThanOrEqual(10);
            expect(new Set(call.map((id) => id.split('#')[0])).size).toBe(call.length);
          }
          const settled = settles.flat().map(({ delivery: { event } }) => event.id);
          expect(new Set(settled).size).toBe(settled.length);
          const published = settles.flat().filter(({ outcome }) => outcome.kind === 'published');
          expect(new Set(published.map(({ delivery: { event } }) => event.id))).toEqual(new Set(acknowledged));
        },
      ),
      { numRuns: 150 },
    );
  });
});
