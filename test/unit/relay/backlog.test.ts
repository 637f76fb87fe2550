import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  absorb,
  acknowledge,
  type Backlog,
  comeBack,
  depart,
  emptyBacklog,
  heads,
  keepPartitions,
  park,
  postpone,
  scanned,
  sendable,
  settling,
  wakeDue,
} from '../../../shared/outbox/relay/backlog.ts';
import type { Delivery, Found } from '../../../shared/outbox/relay/delivery.ts';
import { backlogOf, delivery } from '../../support/delivery.ts';

const rowsOf = (aggregate: string, sequences: readonly number[]): Delivery[] =>
  sequences.map((sequence) => delivery({ aggregate, sequence }));
const loadedOf = (rows: readonly Delivery[]) => new Map(rows.map((row) => [row.position, row]));
const offered = (backlog: Backlog): string[] => [...heads(backlog)].map(([, head]) => head.event.id);
const X = 'key of x';

/** Absorbs one scan's result for aggregate x, everything loaded. */
function scanX(backlog: Backlog, scan: number, rows: readonly Delivery[], cut = false, now = 0): void {
  absorb(backlog, { key: X, rows, cut }, scan, loadedOf(rows), now);
  scanned(backlog, scan);
}

/** What must hold between the parts of a backlog at any time. */
function expectConsistent(backlog: Backlog): void {
  const all = [...backlog.chains.values()].flatMap(({ rows, flying }) =>
    flying === undefined ? rows : [flying, ...rows],
  );
  expect(backlog.rows).toBe(all.length);
  expect(backlog.bytes).toBe(all.reduce((sum, row) => sum + row.bytes, 0));
  for (const [key, { rows, flying }] of backlog.chains) {
    expect(rows.length > 0 || flying !== undefined, `${key} is neither waiting nor flying`).toBe(true);
    expect(backlog.ready.has(key)).toBe(flying === undefined);
    expect(rows.map((row) => row.sequence)).toEqual(rows.map((row) => row.sequence).toSorted((a, b) => Number(a - b)));
  }
  for (const key of backlog.ready) expect(backlog.chains.has(key)).toBe(true);
}

describe('a chain', () => {
  it('offers its lowest, and the next only when that is acknowledged', () => {
    const backlog = backlogOf(rowsOf('x', [1, 2]));
    expect(offered(backlog)).toEqual(['x#1']);
    depart(backlog, [X]);
    expect(offered(backlog)).toEqual([]);
    acknowledge(backlog, X);
    expect(offered(backlog)).toEqual(['x#2']);
  });

  it('case 5: waits with its followers for a retry, while others go on', () => {
    const backlog = backlogOf([...rowsOf('x', [1, 2]), ...rowsOf('y', [1, 2])]);
    depart(backlog, [X, 'key of y']);
    postpone(backlog, X, 500);
    acknowledge(backlog, 'key of y');
    expect(offered(backlog)).toEqual(['y#2']);
    wakeDue(backlog, 499);
    expect([...backlog.wanted]).toEqual([]);
    wakeDue(backlog, 500);
    expect([...backlog.wanted]).toEqual([X]);
  });

  it('goes behind the other heads when it comes back from an outage, so that another one probes', () => {
    const backlog = backlogOf([...rowsOf('x', [1, 2]), ...rowsOf('y', [1])]);
    depart(backlog, [X]);
    comeBack(backlog, X);
    expect(offered(backlog)).toEqual(['y#1', 'x#1']);
    expectConsistent(backlog);
  });

  it('keeps its place among the heads when a scan meets it again: one that grows all the time must not starve', () => {
    const backlog = backlogOf([...rowsOf('x', [1, 2]), ...rowsOf('y', [1])]);
    scanX(backlog, 2, rowsOf('x', [1, 2, 3]));
    expect(offered(backlog)).toEqual(['x#1', 'y#1']);
    expect(backlog.chains.get(X)?.rows).toHaveLength(3);
  });

  it('that was cut is wanted again when it has run dry', () => {
    const backlog = emptyBacklog();
    scanX(backlog, 1, rowsOf('x', [1]), true);
    depart(backlog, [X]);
    acknowledge(backlog, X);
    expect([...backlog.wanted]).toEqual([X]);
  });

  it('ends before the first event that is not at hand, never with a hole', () => {
    const backlog = emptyBacklog();
    const rows = rowsOf('x', [1, 2, 3]);
    absorb(backlog, { key: X, rows, cut: false }, 1, loadedOf([rows[0]!, rows[2]!]), 0);
    expect(backlog.chains.get(X)?.rows.map((row) => row.sequence)).toEqual([1n]);
    expect(backlog.chains.get(X)?.more).toBe(true);
  });

  it('with nothing at hand is wanted again', () => {
    const backlog = emptyBacklog();
    absorb(backlog, { key: X, rows: rowsOf('x', [1]), cut: false }, 1, new Map(), 0);
    expect([...backlog.wanted]).toEqual([X]);
    expect(backlog.rows).toBe(0);
  });

  it('waits as long as the database says when its head is not due', () => {
    const backlog = emptyBacklog();
    scanX(backlog, 1, [{ ...rowsOf('x', [1])[0]!, dueInMs: 700 }, ...rowsOf('x', [2])], false, 1_000);
    expect(offered(backlog)).toEqual([]);
    expect(backlog.waiting.get(X)).toBe(1_700);
  });

  it.each(['parked', 'blocked'] as const)('stops at a %s one', (state) => {
    const backlog = emptyBacklog();
    scanX(backlog, 1, [...rowsOf('x', [1]), { ...rowsOf('x', [2])[0]!, state }, ...rowsOf('x', [3])]);
    expect(backlog.chains.get(X)?.rows.map((row) => row.sequence)).toEqual([1n]);
    depart(backlog, [X]);
    acknowledge(backlog, X);
    expect([backlog.chains.size, backlog.wanted.size, backlog.rows]).toEqual([0, 0, 0]);
  });
});

describe('a scan that is older than an outcome', () => {
  it('case 61: does not bring back the head that a retry settled, nor its follower alone', () => {
    const backlog = backlogOf(rowsOf('x', [1, 2]));
    depart(backlog, [X]);
    const stale = rowsOf('x', [1, 2]); // scan 2 has begun
    postpone(backlog, X, 500);
    settling(
      backlog,
      stale.slice(0, 1).map((row) => row.position),
      3,
    );
    scanX(backlog, 2, stale);
    expect(offered(backlog)).toEqual([]);
    expect(backlog.waiting.get(X)).toBe(500);
    // Scan 3 began after the settlement: it speaks for the database.
    scanX(backlog, 3, [{ ...stale[0]!, dueInMs: 400, attempts: 1 }, stale[1]!], false, 100);
    expect(backlog.waiting.get(X)).toBe(500);
    expect(backlog.outcomes.size).toBe(0);
  });

  it('does not send again what was acknowledged, and sends what follows', () => {
    const backlog = backlogOf(rowsOf('x', [1]));
    depart(backlog, [X]);
    acknowledge(backlog, X);
    scanX(backlog, 2, rowsOf('x', [1, 2]));
    expect(offered(backlog)).toEqual(['x#2']);
  });

  it('like case 61: does not bring back a parked head or its followers', () => {
    const backlog = backlogOf(rowsOf('x', [1, 2]));
    depart(backlog, [X]);
    park(backlog, X);
    scanX(backlog, 2, rowsOf('x', [1, 2]));
    expect(offered(backlog)).toEqual([]);
  });

  it('does not lose a retry that became due before its outcome was written', () => {
    const backlog = backlogOf(rowsOf('x', [1]));
    depart(backlog, [X]);
    postpone(backlog, X, 10);
    wakeDue(backlog, 10);
    // The look-up by name begins, and takes the key off the wanted ones; the settlement has not been written.
    backlog.wanted.delete(X);
    scanX(backlog, 2, rowsOf('x', [1]), false, 12);
    expect(offered(backlog)).toEqual([]);
    wakeDue(backlog, 10_000);
    expect([...backlog.wanted]).toEqual([X]);
  });

  it('leaves what is in flight alone', () => {
    const backlog = backlogOf(rowsOf('x', [1, 2]));
    depart(backlog, [X]);
    scanX(backlog, 2, rowsOf('x', [1, 2, 3]));
    expect(offered(backlog)).toEqual([]);
    expectConsistent(backlog);
    acknowledge(backlog, X);
    expect(offered(backlog)).toEqual(['x#2']);
  });
});

describe('partitions that went', () => {
  it('take their rows with them; what is in flight is answered first', () => {
    const of = (aggregate: string, partition: number) =>
      [1, 2].map((sequence) => delivery({ aggregate, sequence, partition }));
    const backlog = backlogOf([...of('x', 1), ...of('y', 2), ...of('z', 1)]);
    depart(backlog, [X]);
    keepPartitions(backlog, new Set([2]));
    expect(offered(backlog)).toEqual(['y#1']);
    expect(backlog.rows).toBe(3);
    expectConsistent(backlog);
    acknowledge(backlog, X);
    expect(backlog.chains.has(X)).toBe(false);
    expect(backlog.wanted.size).toBe(0);
  });
});

describe('without order', () => {
  it('everything is offered at once, and a refusal holds back nothing else', () => {
    const rows = rowsOf('x', [1, 2, 3]);
    const backlog = backlogOf(rows, false);
    expect(offered(backlog)).toEqual(['x#1', 'x#2', 'x#3']);
    depart(backlog, [rows[0]!.position]);
    postpone(backlog, rows[0]!.position, 500);
    expect(offered(backlog)).toEqual(['x#2', 'x#3']);
    depart(backlog, [rows[1]!.position]);
    park(backlog, rows[1]!.position);
    expect(offered(backlog)).toEqual(['x#3']);
    expectConsistent(backlog);
  });
});

it('case 6: sequences beyond 2^53 are compared exactly', () => {
  const late = [1n, 2n].map((n) => ({ ...delivery({ aggregate: 'x', sequence: Number(n) }), sequence: 2n ** 53n + n }));
  const { rows } = sendable(emptyBacklog(), { key: X, rows: late, cut: false }, 1);
  expect(rows.map((row) => row.sequence)).toEqual([2n ** 53n + 1n, 2n ** 53n + 2n]);
});

/** The database as this test sees it: state of each row by aggregate and sequence. */
type Row = { state: 'pending' | 'published' | 'parked'; due: number };
const acts = fc.array(
  fc.record({
    act: fc.constantFrom(
      'append',
      'begin',
      'begin',
      'finish',
      'finish',
      'send',
      'send',
      'ack',
      'ack',
      'retry',
      'park',
      'back',
      'settle',
      'time',
      'lease',
    ),
    pick: fc.nat(1_000),
  }),
  { minLength: 20, maxLength: 120 },
);

describe('whatever happens between scans, sends, answers and settlements', () => {
  it('like case 6: only the lowest of an aggregate that is not out is offered, nothing is lost, the books are right', () => {
    fc.assert(
      fc.property(acts, fc.integer({ min: 1, max: 3 }), (steps, cut) => {
        const world = worldOf(cut);
        for (const { act, pick } of steps) {
          world.step(act, pick);
          world.check();
        }
        world.finish();
      }),
      { numRuns: 120 },
    );
  });
});

/**
 * A small database and one relay that owns it. Each operation on the backlog is mirrored by what it means; `check` compares.
 * A scan takes its snapshot at `begin` and is absorbed at `finish`; a settlement is one step, as on one connection.
 */
function worldOf(cut: number) {
  const backlog = emptyBacklog();
  const names = ['x', 'y', 'z'];
  const table = new Map<string, Row[]>(names.map((name) => [name, []]));
  const accepted = new Map<string, number>(names.map((name) => [name, 0]));
  const unsettled: { name: string; index: number; row: Row }[] = [];
  let now = 0;
  let scans = 0;
  let written = 0;
  let walked = 0;
  let scan: { number: number; chains: { key: string; rows: Found[]; cut: boolean }[] } | undefined;
  const order = new Map<string, number>();

  const flying = () => names.filter((name) => backlog.chains.get(`key of ${name}`)?.flying !== undefined);
  const indexOf = (name: string) => Number(backlog.chains.get(`key of ${name}`)!.flying!.sequence) - 1;

  function begin(): void {
    if (scan !== undefined) return;
    scans += 1;
    const wake = new Set(backlog.wanted);
    backlog.wanted.clear();
    const chains = [];
    for (const [name, rows] of table) {
      const key = `key of ${name}`;
      // What is above the cursor names the aggregate, or the relay asks for it by name.
      const met = rows.some((row, index) => row.state === 'pending' && order.get(`${name}#${index + 1}`)! > walked);
      if (!met && !wake.has(key)) continue;
      const out = rows.flatMap((row, index) =>
        row.state === 'published'
          ? []
          : [{ ...delivery({ aggregate: name, sequence: index + 1 }), state: row.state, dueInMs: row.due - now }],
      );
      if (out.length > 0) chains.push({ key, rows: out.slice(0, cut), cut: out.length >= cut });
    }
    walked = written;
    scan = { number: scans, chains };
  }

  function finishScan(): void {
    if (scan === undefined) return;
    for (const chain of scan.chains) {
      absorb(backlog, chain, scan.number, new Map(chain.rows.map((row) => [row.position, row as Delivery])), now);
    }
    scanned(backlog, scan.number);
    scan = undefined;
  }

  function settle(): void {
    settling(
      backlog,
      unsettled.map(({ name, index }) => delivery({ aggregate: name, sequence: index + 1 }).position),
      scans + 1,
    );
    for (const { name, index, row } of unsettled.splice(0)) table.get(name)![index] = row;
  }

  function land(name: string, row: Row): void {
    unsettled.push({ name, index: indexOf(name), row });
  }

  function step(act: string, pick: number): void {
    const [ready, away] = [[...backlog.ready], flying()];
    const key = ready[pick % ready.length];
    const name = away[pick % away.length];
    if (act === 'append') {
      const of = names[pick % names.length]!;
      table.get(of)!.push({ state: 'pending', due: 0 });
      written += 1;
      order.set(`${of}#${table.get(of)!.length}`, written);
    }
    if (act === 'begin') begin();
    if (act === 'finish') finishScan();
    if (act === 'send' && key !== undefined) depart(backlog, [key]);
    if (act === 'settle') settle();
    if (act === 'time') {
      now += pick;
      wakeDue(backlog, now);
    }
    if (act === 'lease' && scan === undefined && pick % 4 === 0) {
      // The lease went and came back: the walk begins anew.
      keepPartitions(backlog, new Set());
      walked = 0;
    }
    if (name === undefined) return;
    if (act === 'ack') {
      const index = indexOf(name);
      expect(index, `${name} in order`).toBeLessThanOrEqual(accepted.get(name)!);
      land(name, { state: 'published', due: 0 });
      accepted.set(name, Math.max(accepted.get(name)!, index + 1));
      acknowledge(backlog, `key of ${name}`);
    }
    if (act === 'retry') {
      land(name, { state: 'pending', due: now + (pick % 300) });
      postpone(backlog, `key of ${name}`, now + (pick % 300));
    }
    if (act === 'park' && pick % 5 === 0) {
      land(name, { state: 'parked', due: 0 });
      park(backlog, `key of ${name}`);
    }
    if (act === 'back') comeBack(backlog, `key of ${name}`);
  }

  function check(): void {
    expectConsistent(backlog);
    for (const [key, head] of heads(backlog)) {
      const name = key.slice('key of '.length);
      expect(Number(head.sequence) - 1, `${name}: the lowest that is not out`).toBe(accepted.get(name));
      const pending = unsettled.find((it) => it.name === name && it.index === Number(head.sequence) - 1);
      expect(pending, `${name}: has an outcome that is not written yet`).toBeUndefined();
      expect(table.get(name)![Number(head.sequence) - 1]!.due, `${name}: is not due`).toBeLessThanOrEqual(now);
    }
  }

  /** From here on everything goes well: then all must get out, or stand behind a parked one. */
  function finish(): void {
    for (let round = 0; round < 60; round += 1) {
      for (const name of flying()) step('ack', flying().indexOf(name));
      settle();
      finishScan();
      now += 1_000;
      wakeDue(backlog, now);
      begin();
      finishScan();
      depart(backlog, [...backlog.ready]);
      check();
    }
    for (const [name, rows] of table) {
      const stuck = rows.findIndex((row) => row.state !== 'published');
      if (stuck !== -1) expect(rows[stuck]!.state, `${name}#${stuck + 1} is lost`).toBe('parked');
    }
    expect([backlog.rows, backlog.bytes, backlog.chains.size, backlog.ready.size]).toEqual([0, 0, 0, 0]);
  }

  return { step, check, finish };
}
