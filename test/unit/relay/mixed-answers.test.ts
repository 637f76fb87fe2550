import { describe, expect, it } from 'vitest';
import { PublishError } from '../../../shared/outbox/index.ts';
import { waitFor } from '../../../shared/outbox/relay/circuit.ts';
import { delivery } from '../../support/delivery.ts';
import { acceptAll, accepted, laneBench, refused, refusing, runWithLateScan } from '../../support/lane.ts';

const one = (aggregate: string) => delivery({ aggregate, sequence: 1 });

describe('answers of every kind', () => {
  it('like case 53: in one call: each event gets its own, and the outages among them are charged to nobody', async () => {
    const answers = new Map([
      ['throttled#1', refused('ThrottlingException')],
      ['forbidden#1', refused('AccessDeniedException')],
      ['broken#1', refused('InternalFailure')],
      ['key#1', refused('KmsThrottled')],
      ['hopeless#1', refused('InvalidMessageContents')],
      ['odd#1', refused('SomethingNew')],
    ]);
    const bench = laneBench((messages) => messages.map(({ eventId }) => answers.get(eventId) ?? accepted));
    bench.db.add(...[...answers.keys(), 'fine#1'].map((id) => one(id.slice(0, -2))));
    await bench.run();
    expect(bench.db.rows.map(({ delivery: { eventId }, state, attempts }) => [eventId, state, attempts])).toEqual([
      ['throttled#1', 'pending', 0],
      ['forbidden#1', 'pending', 0],
      ['broken#1', 'pending', 0],
      ['key#1', 'pending', 0],
      ['hopeless#1', 'parked', 1],
      ['odd#1', 'pending', 1],
      ['fine#1', 'published', 0],
    ]);
    // Four outages of one call are one.
    expect(bench.circuit.failures).toBe(1);
    expect(waitFor(bench.circuit, bench.clock.monotonic())).toBeGreaterThan(0);
  });

  it('like case 54: two that make every call fail, the first and the last: both are found, and the others go out', async () => {
    const guilty = new Set(['a0#1', 'a9#1']);
    const bench = laneBench(
      (messages, call) => {
        if (messages.some(({ eventId }) => guilty.has(eventId))) throw new PublishError('Http413', 'scripted');
        return acceptAll(messages, call);
      },
      { drain: false },
    );
    bench.db.add(...Array.from({ length: 10 }, (_, n) => one(`a${n}`)));
    await bench.run(() => bench.db.rows[0]!.attempts > 0 && bench.db.rows[9]!.attempts > 0);
    expect(Object.values(bench.db.states()).filter((state) => state === 'published')).toHaveLength(8);
    expect(bench.db.rows.filter(({ attempts }) => attempts > 0).map((row) => row.delivery.eventId)).toEqual([
      ...guilty,
    ]);
  });
});

describe('a scan that is older than an answer', () => {
  it.each([
    ['published', acceptAll, 'published', ['x#1', 'x#2', 'x#3']],
    ['parked', refusing('InvalidMessageContents', (id) => id === 'x#1'), 'parked', ['x#1']],
  ] as const)(
    'like case 61: that the head is %s: nothing goes twice, and nothing before its time',
    async (_what, answer, state, sent) => {
      const bench = laneBench(answer, { drain: false });
      bench.db.add(delivery({ aggregate: 'x', sequence: 1 }), delivery({ aggregate: 'x', sequence: 2 }));
      await runWithLateScan(bench, () => bench.db.rows[0]!.state === state, 6);
      expect(bench.calls.flat()).toEqual(sent);
    },
  );
});
