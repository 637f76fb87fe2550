import { describe, expect, it } from 'vitest';
import { explore } from '../../model/explore.ts';
import { RULES, type Rules } from '../../model/rules.ts';
import { type Budget, freshWorld } from '../../model/world.ts';

/** One exploration: what is written already, what writers still write, what may go wrong, and how many states there must be. */
interface Bounds {
  readonly written?: Record<string, number>;
  readonly toWrite?: Record<string, number>;
  readonly faults?: Partial<Budget>;
  readonly rules?: Partial<Rules>;
}

function run({ written, toWrite = {}, faults = {}, rules }: Bounds) {
  return explore(freshWorld(toWrite, faults, written), { ...RULES, ...rules });
}

/** The numbers are floors: a model that cannot do much any more proves little. `docs/model.md` has the table. */
const SOUND: readonly (readonly [name: string, states: number, bounds: Bounds])[] = [
  [
    'late commits, ids against the order of sequences, a page of one row',
    9_000,
    { toWrite: { x: 3 }, rules: { page: 1 } },
  ],
  ['late commits of two aggregates', 6_900, { toWrite: { x: 1, y: 1 }, rules: { page: 1 }, faults: { retry: 1 } }],
  ['late commits while the lease changes hands', 14_000, { toWrite: { x: 2 }, faults: { steal: 1 } }],
  ['rollback and crash', 1_700, { toWrite: { x: 2 }, faults: { rollback: 1, crash: 1 } }],
  ['a chain longer than a look-up, two relays', 22_000, { written: { x: 3 }, faults: { steal: 1 }, rules: { cut: 2 } }],
  ['two aggregates, two relays', 18_000, { written: { x: 2, y: 1 }, faults: { steal: 1 } }],
  ['the lease goes and comes back', 2_500, { written: { x: 2 }, faults: { steal: 2 } }],
  ['no answer, crash, late message', 22_000, { written: { x: 2 }, faults: { silence: 1, crash: 1, steal: 1 } }],
  ['retry, no answer, two relays', 25_000, { written: { x: 2 }, faults: { retry: 1, silence: 1, steal: 1 } }],
  [
    'parked by one relay, accepted from the other, redriven',
    25_500,
    { written: { x: 2 }, faults: { poison: 1, redrive: 1, steal: 1 } },
  ],
  [
    'parked and skipped by an operator, redriven, crash',
    6_400,
    { written: { x: 3 }, faults: { poison: 2, redrive: 1, skip: 1 } },
  ],
  [
    'skipped by policy, two relays',
    12_500,
    { written: { x: 2 }, faults: { poison: 1, steal: 1 }, rules: { whenParked: 'skip' } },
  ],
  ['written behind a parked one', 950, { written: { x: 1 }, toWrite: { x: 1 }, faults: { poison: 1, redrive: 1 } }],
];

/** Each rule that is turned round must be missed, in a scenario that is sound with it. */
const BROKEN: readonly (readonly [name: string, reason: RegExp, bounds: Bounds])[] = [
  [
    'scans that look nothing up',
    /x#1 reaches the queue after x#2/,
    { toWrite: { x: 2 }, rules: { lookUp: false, page: 1 } },
  ],
  [
    'the next sent before the one before is acknowledged',
    /x#1 reaches the queue after x#2/,
    { written: { x: 2 }, rules: { awaitAcknowledgement: false } },
  ],
  [
    'a retry that overwrites "published"',
    /was published, and is retry now/,
    { written: { x: 1 }, faults: { steal: 1, retry: 1 }, rules: { publishedWins: false } },
  ],
  [
    'a retry that counts without the lease',
    /sent before the time of its retry/,
    { written: { x: 1 }, faults: { steal: 1, retry: 1 }, rules: { leaseCounts: false } },
  ],
  [
    'case 61: a scan from before a retry',
    /sent before the time of its retry/,
    { written: { x: 2 }, faults: { retry: 1 }, rules: { rememberOutcomes: false } },
  ],
  [
    'rows claimed one by one',
    /x#1 reaches the queue after x#2/,
    { written: { x: 2 }, rules: { claimRows: true, page: 1 } },
  ],
  [
    'sequences without the lock of the stream',
    /x#1 reaches the queue after x#2/,
    { toWrite: { x: 2 }, rules: { streamLock: false } },
  ],
  [
    'a parking that could not be written, forgotten',
    /is lost/,
    { written: { x: 1 }, faults: { steal: 2, poison: 1 }, rules: { askAgain: false } },
  ],
  [
    'followers blocked behind a head that is out after all',
    /is lost/,
    { written: { x: 2 }, faults: { steal: 1, poison: 1 }, rules: { unblock: false } },
  ],
  [
    'followers that nobody looks at after a parking came to nothing',
    /is lost/,
    { written: { x: 2 }, faults: { steal: 1, poison: 1 }, rules: { lookAfterParking: false } },
  ],
  [
    'a partition dropped because of one late answer',
    /is lost/,
    { written: { x: 1 }, faults: { steal: 2, silence: 1 }, rules: { surrenderOne: false } },
  ],
];

describe('the protocol keeps order and loses nothing, in every state that can be reached', () => {
  it.each(SOUND)('%s', (name, atLeast, bounds) => {
    const { states, steps, broken } = run(bounds);
    console.log(`model: ${name}: ${states} states, ${steps} steps`);
    expect(broken).toBeUndefined();
    expect(states).toBeGreaterThanOrEqual(atLeast);
  });
});

describe('the model finds what is wrong with', () => {
  it.each(BROKEN)('%s', (name, reason, bounds) => {
    const { broken } = run(bounds);
    console.log(`model: ${name}: ${broken?.reason}\n  ${broken?.trace.join('\n  ')}`);
    expect(broken?.reason).toMatch(reason);
    // The same scenario with the rule in force is sound: it is the rule that makes the difference.
    const { page = RULES.page } = bounds.rules ?? {};
    expect(run({ ...bounds, rules: { page } }).broken).toBeUndefined();
  });
});
