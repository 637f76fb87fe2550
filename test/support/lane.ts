import type { Queryable, Result } from '../../shared/database/index.ts';
import type { Message, Publisher, PublishResult } from '../../shared/outbox/publish/publisher.ts';
import { type Circuit, closedCircuit } from '../../shared/outbox/relay/circuit.ts';
import { moment } from '../../shared/outbox/relay/clock.ts';
import { START } from '../../shared/outbox/relay/cursor.ts';
import type { Delivery } from '../../shared/outbox/relay/delivery.ts';
import { runLane } from '../../shared/outbox/relay/lane.ts';
import type { LaneContext } from '../../shared/outbox/relay/lane-state.ts';
import type { Lease } from '../../shared/outbox/relay/lease.ts';
import { RETRY_POLICY } from '../../shared/outbox/relay/outcome.ts';
import { silentLog } from '../../shared/telemetry/index.ts';
import { delivery, LEDGER } from './delivery.ts';
import { type MovedClock, movedClock, turn } from './moved-clock.ts';

/** A row of the table that a lane works on. */
export interface TableRow {
  readonly delivery: Delivery;
  state: 'pending' | 'parked' | 'blocked' | 'set_aside' | 'published';
  /** Monotonic milliseconds. */
  dueAt: number;
  attempts: number;
  error: string | null;
}

/** What a lane's SQL would do, in memory. Statements are told apart by their text. */
export interface Table extends Queryable {
  readonly rows: TableRow[];
  /** Kinds of the statements so far: `find`, `load`, `settle`, `revive`, `park`. */
  readonly statements: string[];
  /** Of each `find`: keys asked for by name, and rows that the walk may read. */
  readonly finds: { readonly wake: number; readonly page: number }[];
  /** Runs before the answer of a statement comes back; what it saw is fixed by then. */
  pause: (statement: string) => Promise<void> | void;
  add(...deliveries: readonly Delivery[]): void;
  /** State by event id. */
  states(): Record<string, string>;
}

function table(clock: MovedClock): Table {
  const rows: TableRow[] = [];
  const statements: string[] = [];
  const finds: { wake: number; page: number }[] = [];
  const out = (row: TableRow): boolean => row.state === 'published' || row.state === 'set_aside';
  const at = (position: string): TableRow | undefined => rows.find((row) => row.delivery.position === position);

  function find(values: readonly unknown[]): unknown[] {
    const [, ordered, partitions, afterXid, , , , wake, wakePosition, page, cut] = values as [
      number,
      boolean,
      number[],
      string,
      string,
      string[],
      string[],
      string[],
      string[],
      number,
      number,
    ];
    finds.push({ wake: wake.length + wakePosition.length, page });
    // Each row was written by a transaction of its own, which is committed: its id is the row's place.
    const walked = rows
      .map((row, index) => ({ row, xid: index + 1 }))
      .filter(
        ({ row, xid }) =>
          row.state === 'pending' && xid > Number(afterXid) && partitions.includes(row.delivery.partition),
      )
      .slice(0, page);
    const line = (row: TableRow) => ({
      key: row.delivery.key,
      position: row.delivery.position,
      event_id: row.delivery.eventId,
      partition: row.delivery.partition,
      sequence: String(row.delivery.sequence),
      attempts: row.attempts,
      run: row.delivery.run,
      bytes: row.delivery.bytes,
      state: row.state,
      due_in_ms: row.dueAt - clock.monotonic(),
    });
    const xmax = rows.length + 1;
    const scan = {
      snapshot: `${xmax}:${xmax}:`,
      rows: walked.length,
      xid: walked.at(-1)?.xid.toString() ?? null,
      position: walked.at(-1)?.row.delivery.position ?? null,
      open: [],
    };
    const keys = new Set([...walked.map(({ row }) => row.delivery.key), ...wake]);
    const positions = new Set([...walked.map(({ row }) => row.delivery.position), ...wakePosition]);
    const found = ordered
      ? [...keys].flatMap((key) =>
          rows
            .filter((row) => row.delivery.key === key && !out(row))
            .toSorted((a, b) => Number(a.delivery.sequence - b.delivery.sequence))
            .slice(0, cut),
        )
      : rows.filter((row) => positions.has(row.delivery.position) && row.state === 'pending');
    return [{ key: null, scan }, ...found.map(line)];
  }

  function load([ids]: readonly unknown[]): unknown[] {
    return rows
      .filter((row) => (ids as string[]).includes(row.delivery.eventId))
      .map(({ delivery: { event } }) => ({
        id: event.id,
        type: event.type,
        schema_version: event.schemaVersion,
        aggregate_type: event.aggregateType,
        aggregate_id: event.aggregateId,
        data: event.data,
        metadata: event.metadata,
        occurred_at: event.occurredAt,
      }));
  }

  function settle(values: readonly unknown[]): unknown[] {
    const [, positions, states, delays, errors] = values as [
      string,
      string[],
      string[],
      (number | null)[],
      (string | null)[],
    ];
    return positions.flatMap((position, index) => {
      const row = at(position);
      if (row?.state !== 'pending') return [];
      row.state = states[index] as TableRow['state'];
      row.error = errors[index] ?? row.error;
      if (row.state !== 'published') row.attempts += 1;
      const delay = delays[index];
      if (delay !== null && delay !== undefined) row.dueAt = clock.monotonic() + delay;
      return [{ position }];
    });
  }

  function park([, keys]: readonly unknown[]): unknown[] {
    const again: unknown[] = [];
    for (const key of keys as string[]) {
      const [head, ...others] = rows.filter((row) => row.delivery.key === key && !out(row));
      if (head?.state === 'parked') for (const row of others) if (row.state === 'pending') row.state = 'blocked';
      if (head !== undefined && head.state !== 'parked') again.push({ key, more: false, reached: null });
    }
    return again;
  }

  return {
    rows,
    statements,
    finds,
    pause: () => {},
    add(...deliveries) {
      for (const delivery of deliveries) {
        rows.push({ delivery, state: delivery.state, dueAt: 0, attempts: delivery.attempts, error: null });
      }
    },
    states: () => Object.fromEntries(rows.map((row) => [row.delivery.eventId, row.state])),
    async query(text, values = []): Promise<Result> {
      const [kind, run] = statementOf(text);
      statements.push(kind);
      const result = run(values);
      await turn();
      await this.pause(kind);
      return { rows: result, rowCount: result.length };
    },
  };

  function statementOf(text: string): [string, (values: readonly unknown[]) => unknown[]] {
    if (text.includes('outbox.find(')) return ['find', find];
    if (text.includes('outbox.load(')) return ['load', load];
    if (text.includes('outbox.apply_parking(')) return ['park', park];
    if (text.includes('with held as')) return ['settle', settle];
    throw new Error(`a statement that no lane has: ${text.slice(0, 60)}`);
  }
}

export type Answer = (
  messages: readonly Message[],
  call: number,
) => readonly PublishResult[] | Promise<readonly PublishResult[]>;

export const accepted: PublishResult = { ok: true, messageId: 'm' };
export const refused = (code: string): PublishResult => ({ ok: false, code, reason: 'scripted' });
export const acceptAll: Answer = (messages) => messages.map(() => accepted);
/** Refuses what `isBad` says, by event id, and accepts the others. */
export const refusing =
  (code: string, isBad: (eventId: string) => boolean): Answer =>
  (messages) =>
    messages.map(({ eventId }) => (isBad(eventId) ? refused(code) : accepted));

export interface LaneBench {
  readonly clock: MovedClock;
  readonly db: Table;
  readonly lease: Lease;
  readonly circuit: Circuit;
  /** Event ids of each call, as they were made. */
  readonly calls: string[][];
  readonly messages: Message[];
  /** Turns of the lane's loop. */
  turns(): number;
  /** Asks the lane to end. */
  stop(): void;
  /** Runs the lane, and time with it, until it ends or `until` says so (then it is asked to end). */
  run(until?: () => boolean): Promise<void>;
  /** Starts the lane without moving time. */
  start(): Promise<void>;
}

/** A lane with a table, a queue that answers as scripted, partitions 0 to 3, and a clock that is moved. */
export function laneBench(answer: Answer, change: Partial<LaneContext> = {}, bytes = 1_000_000): LaneBench {
  const clock = movedClock();
  const db = table(clock);
  const calls: string[][] = [];
  const messages: Message[] = [];
  let turns = 0;
  let over = false;
  const publisher: Publisher = {
    limits: { entries: 10, bytes, timeoutMs: 5_000 },
    preflight: () => Promise.resolve(),
    publish: async (sent) => {
      calls.push(sent.map((message) => message.eventId));
      messages.push(...sent);
      return answer(sent, calls.length);
    },
    close() {},
  };
  const lease: Lease = {
    owner: 'me',
    slot: 'slot',
    seconds: 30,
    held: new Map([0, 1, 2, 3].map((number) => [number, '1'])),
    surplus: new Set(),
    busy: new Map(),
    renewedAt: moment(clock),
    share: 4,
  };
  const circuit = closedCircuit();
  const context: LaneContext = {
    db,
    lease,
    destination: LEDGER,
    source: '/invoices',
    publisher,
    circuit,
    clock,
    random: () => 0.5,
    log: silentLog,
    policy: RETRY_POLICY,
    window: { rows: 2_000, bytes: 10_000_000, page: 100, rowsOfAggregate: 20 },
    concurrency: 4,
    drain: true,
    start: () => START,
    isOver: () => {
      turns += 1;
      return over;
    },
    mayStart: () => true,
    settled: () => {},
    signal: new AbortController().signal,
    ...change,
  };
  const stop = (): void => {
    over = true;
  };
  return {
    clock,
    db,
    lease,
    circuit,
    calls,
    messages,
    turns: () => turns,
    stop,
    start: () => runLane(context),
    async run(until = () => false) {
      const state = { ended: false };
      const lane = runLane(context).finally(() => {
        state.ended = true;
      });
      // Who waits for it hears of a failure; here it must not be an unhandled one.
      lane.catch(() => {});
      for (let rounds = 0; !state.ended; rounds += 1) {
        if (rounds > 5_000) throw new Error('the lane does not end');
        if (until()) stop();
        await turn();
        await clock.advance(5);
      }
      await lane;
    },
  };
}

/**
 * Runs until `scans` were made, the second of which is late: it saw the table before anything was settled, and its answer comes when
 * `settled` holds. Meanwhile x#3 is written.
 */
export async function runWithLateScan(bench: LaneBench, settled: () => boolean, scans: number): Promise<void> {
  const late = Promise.withResolvers<void>();
  let finds = 0;
  bench.db.pause = (kind) => {
    if (kind !== 'find') return undefined;
    finds += 1;
    return finds === 2 ? late.promise : undefined;
  };
  let written = false;
  await bench.run(() => {
    if (finds === 1 && !written) {
      written = true;
      bench.db.add(delivery({ aggregate: 'x', sequence: 3 }));
    }
    if (settled()) late.resolve();
    return finds > scans;
  });
}
