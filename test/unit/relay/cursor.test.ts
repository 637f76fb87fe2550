import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { advanceCursor, type Cursor, type Scan, START } from '../../../shared/outbox/relay/cursor.ts';

/** Transactions of a small database. Ids are given out in order of the first write; they commit in any order, or never. */
interface Transaction {
  readonly xid: bigint;
  state: 'open' | 'committed' | 'rolled back';
  readonly positions: bigint[];
}

/** What `outbox.find` would read, by the same rules. `visited` are the rows that it returns. */
function look(transactions: readonly Transaction[], cursor: Cursor, page: number): { scan: Scan; visited: bigint[] } {
  const open = transactions.filter(({ state }) => state === 'open').map(({ xid }) => xid);
  const xmax = BigInt(transactions.length) + 100n;
  const rows = transactions
    .filter(({ state }) => state === 'committed')
    .flatMap(({ xid, positions }) => positions.map((position) => ({ xid, position })))
    .toSorted((a, b) => Number(a.xid - b.xid) || Number(a.position - b.position));
  const above = rows.filter(
    ({ xid, position }) =>
      xid > BigInt(cursor.xid) || (xid === BigInt(cursor.xid) && position > BigInt(cursor.position)),
  );
  const walked = above.slice(0, page);
  const again = [...cursor.open].map(([xid, after]) => {
    const of = rows.filter((row) => row.xid === BigInt(xid) && row.position > BigInt(after)).slice(0, page);
    return { xid, of, full: of.length >= page, position: String(of.at(-1)?.position ?? after) };
  });
  return {
    scan: {
      snapshot: `${open[0] ?? xmax}:${xmax}:${open.join(',')}`,
      rows: walked.length,
      xid: walked.at(-1)?.xid.toString() ?? null,
      position: walked.at(-1)?.position.toString() ?? null,
      open: again.map(({ xid, full, position }) => ({ xid, full, position })),
    },
    visited: [...walked, ...again.flatMap(({ of }) => of)].map(({ position }) => position),
  };
}

const steps = fc.array(
  fc.record({
    act: fc.constantFrom('begin', 'begin', 'write', 'write', 'write', 'commit', 'commit', 'roll back', 'scan', 'scan'),
    pick: fc.nat(100),
  }),
  { minLength: 10, maxLength: 150 },
);

describe('the cursor', () => {
  it('misses nothing and meets nothing twice, whatever the order of commits, with pages of any size', () => {
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 4 }), (acts, page) => {
        const transactions: Transaction[] = [];
        const met: bigint[] = [];
        let cursor = START;
        let position = 0n;
        const scan = (): number => {
          const { scan: result, visited } = look(transactions, cursor, page);
          cursor = advanceCursor(cursor, result, page);
          met.push(...visited);
          return visited.length;
        };
        for (const { act, pick } of acts) {
          const open = transactions.filter(({ state }) => state === 'open');
          const one = open[pick % open.length];
          if (act === 'begin') {
            transactions.push({ xid: BigInt(transactions.length) + 100n, state: 'open', positions: [] });
          }
          if (act === 'write' && one !== undefined) one.positions.push((position += 1n));
          if (act === 'commit' && one !== undefined) one.state = 'committed';
          if (act === 'roll back' && one !== undefined) one.state = 'rolled back';
          if (act === 'scan') scan();
          // What is remembered is open, or not read to its end: it does not grow with history.
          const running = transactions.filter(({ state }) => state !== 'rolled back').map(({ xid }) => String(xid));
          if (act === 'scan') for (const xid of cursor.open.keys()) expect(running).toContain(xid);
        }
        // It comes to an end although transactions may stay open for ever.
        let rounds = 0;
        while (scan() > 0) expect((rounds += 1)).toBeLessThan(500);
        const committed = transactions
          .filter(({ state }) => state === 'committed')
          .flatMap(({ positions }) => positions);
        expect(met.toSorted((a, b) => Number(a - b))).toEqual(committed.toSorted((a, b) => Number(a - b)));
        const open = transactions.filter(({ state }) => state === 'open').map(({ xid }) => String(xid));
        expect([...cursor.open.keys()].toSorted()).toEqual(open.toSorted());
      }),
      { numRuns: 500 },
    );
  });

  const scanned = (snapshot: string, change: Partial<Scan> = {}): Scan => ({
    snapshot,
    rows: 0,
    xid: null,
    position: null,
    open: [],
    ...change,
  });

  it('goes to the end of the snapshot when a page was not full, and remembers who was writing', () => {
    const cursor = advanceCursor(START, scanned('100:105:100,104'), 10);
    expect(cursor).toEqual({
      xid: '104',
      position: '9223372036854775807',
      open: new Map([
        ['100', '0'],
        ['104', '0'],
      ]),
    });
  });

  it('stops at the last row of a full page, and remembers only who writes at or below it', () => {
    const cursor = advanceCursor(START, scanned('100:105:100,104', { rows: 2, xid: '102', position: '7' }), 2);
    expect(cursor).toEqual({ xid: '102', position: '7', open: new Map([['100', '0']]) });
  });

  it('keeps its place in a late transaction that has more rows than a page, and forgets it at the end', () => {
    const late: Cursor = { xid: '104', position: '1', open: new Map([['100', '0']]) };
    const first = advanceCursor(late, scanned('105:105:', { open: [{ xid: '100', full: true, position: '8' }] }), 2);
    expect(first.open).toEqual(new Map([['100', '8']]));
    const last = advanceCursor(first, scanned('105:105:', { open: [{ xid: '100', full: false, position: '9' }] }), 2);
    expect(last.open).toEqual(new Map());
  });

  it('does not go back on a server whose transaction ids start lower: it was restored from elsewhere', () => {
    const cursor = advanceCursor({ xid: '900', position: '5', open: new Map() }, scanned('100:100:'), 10);
    expect(cursor.xid).toBe('900');
  });

  it('compares 64-bit ids as numbers, not as text', () => {
    const cursor = advanceCursor(START, scanned('99:18446744073709551615:99,18446744073709551614'), 10);
    expect(cursor.xid).toBe('18446744073709551614');
    expect([...cursor.open.keys()]).toEqual(['99', '18446744073709551614']);
  });
});
