import { describe, expect, it } from 'vitest';
import { acceptance } from '../../chaos/acceptance.ts';
import { statementName } from '../../chaos/await-points.ts';
import { CALL_FAULTS, callFaults } from '../../chaos/call-faults.ts';
import { HANDLER_FAULTS } from '../../chaos/catalogue.ts';
import { parseOptions } from '../../chaos/options.ts';
import { progressLine } from '../../chaos/progress.ts';
import { seeded } from '../../chaos/random.ts';
import { handlerFaultsOf } from '../../chaos/writers.ts';

/** The kinds that a plan deals to a hundred calls, ten milliseconds apart. */
function plan(seed: number): string[] {
  const kinds: string[] = [];
  let now = 0;
  const faults = callFaults({
    random: seeded(seed, 'calls'),
    timeoutMs: 1_000,
    everyMs: 20,
    now: () => now,
    outage: () => {},
    injected: (kind) => kinds.push(kind),
  });
  for (let call = 0; call < 100; call += 1) {
    now += 10;
    faults.next();
  }
  return kinds;
}

describe('the plan of faults', () => {
  it('is the same for the same seed, and another for another', () => {
    expect(plan(7)).toEqual(plan(7));
    expect(plan(7)).not.toEqual(plan(8));
  });

  it('deals every kind before any comes twice', () => {
    expect(new Set(plan(7).slice(0, CALL_FAULTS.length))).toEqual(new Set(CALL_FAULTS));
  });
});

describe('the trouble that events make for their handlers', () => {
  it('comes now and then, each kind in its turn', () => {
    const next = handlerFaultsOf(seeded(1, 'x'), 10, HANDLER_FAULTS);
    const dealt = Array.from({ length: 1_000 }, next).filter((fault) => fault !== undefined);
    expect(dealt.length).toBeGreaterThan(50);
    expect(dealt.length).toBeLessThan(200);
    expect(new Set(dealt.slice(0, HANDLER_FAULTS.length))).toEqual(new Set(HANDLER_FAULTS));
  });

  it('is none where there are no kinds', () => {
    const next = handlerFaultsOf(seeded(1, 'x'), 1, []);
    expect(Array.from({ length: 10 }, next).every((fault) => fault === undefined)).toBe(true);
  });
});

describe('the names of await points', () => {
  it.each([
    ['update outbox.relay set seen_at = clock_timestamp() where owner = $1', 'update relay (seen_at)'],
    [
      'with free as (select number from outbox.partition) update outbox.partition p set lease_owner = $1',
      'update partition (lease_owner)',
    ],
    ['update outbox.partition set lease_owner = null where number = 1', 'update partition (lease_owner = null)'],
    ['select key from outbox.find($1)', 'select find'],
    ['select outbox.apply_parking($1, $2)', 'select apply_parking'],
    ['insert into outbox.relay (owner) values ($1) on conflict do nothing', 'insert relay'],
  ])('%s', (sql, name) => {
    expect(statementName(sql)).toBe(name);
  });
});

describe('what the queue took', () => {
  const entry = (id: string, sequence: number) => ({
    Id: '0',
    MessageBody: JSON.stringify({ id, subject: 'a', sequence: String(sequence) }),
  });

  it('keeps the lowest place of an event, in whatever order the answers come', () => {
    const taken = acceptance(['ledger'], new Set(['ledger']));
    taken.record('ledger', entry('x', 1), 5);
    taken.record('ledger', entry('x', 1), 3);
    expect(taken.first.get('ledger')?.get('x')).toBe(3);
    expect(taken.repeats).toBe(1);
  });

  it('suspects an event that comes first after a later one of its aggregate', () => {
    const taken = acceptance(['ledger'], new Set(['ledger']));
    taken.record('ledger', entry('y', 2), 1);
    taken.record('ledger', entry('x', 1), 2);
    taken.record('ledger', entry('y', 2), 3);
    expect(taken.suspicions).toBe(1);
  });

  it('suspects nothing where no order is kept', () => {
    const taken = acceptance(['search'], new Set());
    taken.record('search', entry('y', 2), 1);
    taken.record('search', entry('x', 1), 2);
    expect(taken.suspicions).toBe(0);
    expect(taken.events).toBe(2);
  });
});

describe('the progress of a run', () => {
  const before = { seconds: 590, events: 400_000, deliveries: 600_000, acknowledged: 590_000, waitsFor: [] };

  it('has the rate since the line before, and the time that is left by the whole run', () => {
    const now = { seconds: 600, events: 410_000, deliveries: 607_000, acknowledged: 600_000, waitsFor: [] };
    expect(progressLine(1_000_000, now, before)).toBe(
      '600 s: 410,000 of 1,000,000 events, 607,000 deliveries (700/s), 600,000 acknowledged, about 15 min of writing left',
    );
  });

  it.each([
    [[], 'each had its turn'],
    [['SIGTERM', 'dead letter redriven'], 'each had its turn (not yet: SIGTERM; dead letter redriven)'],
    [['a', 'b', 'c', 'd'], 'each had its turn (not yet: a; b; c; …)'],
  ])('says so when all is written, and what it waits for: %j', (waitsFor, end) => {
    const now = { seconds: 600, events: 410_000, deliveries: 607_000, acknowledged: 600_000, waitsFor };
    expect(progressLine(410_000, now, before)).toMatch(/all written; faults go on until .*/);
    expect(progressLine(410_000, now, before).endsWith(end)).toBe(true);
  });
});

describe('the options of the command', () => {
  it('have defaults', () => {
    expect(parseOptions([])).toMatchObject({
      events: 20_000,
      relays: 2,
      seed: 1,
      relay: 'ours',
      consumer: 'ours',
      sweep: 'whole',
    });
    expect(parseOptions([])).toMatchObject({ minutes: 10, every: 1.2, callsEvery: 0.4 });
  });

  it('give a long run its time, and fewer faults a minute', () => {
    expect(parseOptions(['--events', '900000'])).toMatchObject({ minutes: 60, every: 8, callsEvery: 4 });
    expect(parseOptions(['--events', '900000', '--every', '2'])).toMatchObject({ every: 2, callsEvery: 4 });
  });

  it.each([
    [['--relays', '5'], '--relays'],
    [['--events', '-1'], '--events'],
    [['--relay', 'mine'], '--relay'],
    [['--consumer', 'mine'], '--consumer'],
    [['--minutes', 'x'], '--minutes'],
    [['--every', '0'], '--every'],
    [['--calls-every', 'x'], '--calls-every'],
    [['--nonsense'], '--help'],
  ])('%j are refused, naming the option', (args, name) => {
    expect(() => parseOptions(args)).toThrow(name);
  });
});
