import type pg from 'pg';
import type { Queryable, Result } from '../database/index.ts';

/** An event that was appended, as it is stored: what its schema marks is sealed (`openAppended`). */
export interface RecordedEvent {
  readonly id: string;
  readonly type: string;
  readonly schemaVersion: number;
  readonly aggregate: { readonly type: string; readonly id: string };
  readonly data: unknown;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** A statement that is none of the outbox's. */
export interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** A transaction that remembers. Code that is written for `pg` may use its `query(text, values)` and nothing else of it. */
export interface TestTransaction extends pg.ClientBase {
  /** Events appended in it, in order. */
  readonly appended: readonly RecordedEvent[];
  readonly statements: readonly Statement[];
}

/** As `outbox.append` takes them. */
interface AppendedRow {
  readonly id: string;
  readonly type: string;
  readonly schema_version: number;
  readonly aggregate_type: string;
  readonly aggregate_id: string;
  readonly data: unknown;
  readonly metadata?: Readonly<Record<string, string>>;
}

const APPEND = /\bfrom outbox\.append\(/;

/**
 * Stands in for a transaction: appended events get the next sequence of their aggregate, from 1; other statements are answered by `answer`, or
 * with no rows. Or goes around a real one, `on`: everything is carried out there, and remembered when it was.
 *
 * ```ts
 * const tx = testTransaction();
 * await placeOrder(tx, order);
 * expect(tx.appended).toMatchObject([{ type: 'order.placed', aggregate: { id: order.id } }]);
 * ```
 *
 * @param answer rows for a statement, in the shape of its columns
 */
export function testTransaction({
  on,
  answer = () => [],
}: {
  readonly on?: Queryable;
  readonly answer?: (statement: Statement) => readonly unknown[];
} = {}): TestTransaction {
  const appended: RecordedEvent[] = [];
  const statements: Statement[] = [];
  const sequences = new Map<string, bigint>();
  const next = ({ aggregate_type: type, aggregate_id: id }: AppendedRow): string => {
    const key = JSON.stringify([type, id]);
    const sequence = (sequences.get(key) ?? 0n) + 1n;
    sequences.set(key, sequence);
    return String(sequence);
  };
  const query = async (text: string, values: readonly unknown[] = []): Promise<Result> => {
    const result = await on?.query(text, values);
    if (!APPEND.test(text)) {
      statements.push({ text, values });
      return result ?? resultOf(answer({ text, values }));
    }
    const rows = JSON.parse(String(values[0])) as AppendedRow[];
    appended.push(...rows.map(recorded));
    return result ?? resultOf(rows.map((row) => ({ id: row.id, sequence: next(row) })));
  };
  return { query, appended, statements } as unknown as TestTransaction;
}

function resultOf(rows: readonly unknown[]): Result {
  return { rows: [...rows], rowCount: rows.length };
}

function recorded(row: AppendedRow): RecordedEvent {
  return {
    id: row.id,
    type: row.type,
    schemaVersion: row.schema_version,
    aggregate: { type: row.aggregate_type, id: row.aggregate_id },
    data: row.data,
    ...(row.metadata !== undefined && { metadata: row.metadata }),
  };
}
