import { describe, expect, it } from 'vitest';
import { PublishError, runRelay } from '../../../shared/outbox/index.ts';
import { silentLog } from '../../../shared/telemetry/index.ts';
import { delivery, LEDGER } from '../../support/delivery.ts';
import { accepted, type LaneBench, laneBench, refused } from '../../support/lane.ts';
import { type MovedClock, movedClock, turn } from '../../support/moved-clock.ts';

const HALF_AN_HOUR = 30 * 60_000;

async function pass(clock: MovedClock, ms: number): Promise<void> {
  // In steps: what runs between two of them must not find that hours have gone by.
  for (let passed = 0; passed < ms; passed += 50) {
    await clock.advance(50);
    await turn();
  }
}

/** Runs through half an hour in which the destination is away, and half a minute after it. */
async function throughOutage(bench: LaneBench, end: () => void): Promise<{ calls: number; statements: number }> {
  const lane = bench.start();
  await pass(bench.clock, HALF_AN_HOUR);
  const before = { calls: bench.calls.length, statements: bench.db.statements.length };
  expect(bench.db.statements).not.toContain('settle');
  expect(bench.db.rows.every(({ state, attempts }) => state === 'pending' && attempts === 0)).toBe(true);
  end();
  await pass(bench.clock, 31_000);
  bench.stop();
  await pass(bench.clock, 1_000);
  await lane;
  return before;
}

/** Twelve hundred events of four hundred aggregates. */
const events = Array.from({ length: 1_200 }, (_, n) =>
  delivery({ aggregate: `a${n % 400}`, sequence: Math.floor(n / 400) + 1 }),
);

describe('half an hour', () => {
  it.each(['ECONNREFUSED', 'ServiceUnavailable', 'AccessDenied'])(
    'case 11: of a broker that is away (%s): nothing parked or charged, no hot loop, and everything sent in order afterwards',
    async (code) => {
      let down = true;
      const bench = laneBench(
        (messages) => {
          if (down) throw new PublishError(code, 'scripted');
          return messages.map(() => accepted);
        },
        { drain: false },
      );
      bench.db.add(...events);
      const { calls, statements } = await throughOutage(bench, () => {
        down = false;
      });
      // Often enough to notice soon that it is back, and no more.
      expect(calls).toBeGreaterThan(60);
      expect(calls).toBeLessThan(150);
      expect(statements).toBeLessThan(150);
      expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
      const sent = bench.calls.slice(calls).flat();
      expect(sent).toHaveLength(1_200);
      for (let n = 0; n < 400; n += 1) {
        expect(sent.filter((id) => id.startsWith(`a${n}#`))).toEqual([`a${n}#1`, `a${n}#2`, `a${n}#3`]);
      }
    },
  );

  it('like case 11: of a bus without order that throttles each entry: the same', async () => {
    let down = true;
    const bench = laneBench((messages) => messages.map(() => (down ? refused('ThrottlingException') : accepted)), {
      drain: false,
      destination: { ...LEDGER, kind: 'eventbridge', ordered: false },
    });
    bench.db.add(...events);
    const { calls } = await throughOutage(bench, () => {
      down = false;
    });
    expect(calls).toBeGreaterThan(60);
    expect(calls).toBeLessThan(150);
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
    expect(bench.calls.slice(calls).flat()).toHaveLength(1_200);
  });

  it('like case 11: of a database that is away: no hot loop, and the relay is there within half a minute of its return', async () => {
    const clock = movedClock();
    const stop = new AbortController();
    let away = true;
    let tries = 0;
    const running = runRelay({
      connect: async () => {
        tries += 1;
        if (!away) stop.abort();
        throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
      },
      publishers: {},
      log: silentLog,
      slot: 'slot',
      mode: 'continuous',
      clock,
      random: () => 0.5,
      signal: stop.signal,
    });
    await pass(clock, HALF_AN_HOUR);
    expect(tries).toBeGreaterThan(60);
    expect(tries).toBeLessThan(150);
    away = false;
    await pass(clock, 30_000);
    expect(await running).toEqual({ ended: 'stopped', published: 0, retried: 0, parked: 0 });
  });
});
