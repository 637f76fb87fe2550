import type { Queryable, Row } from '../../database/index.ts';
import { operationErrorOf } from './operation-error.ts';

/** Rows of one of the functions of `0006_operations.sql`; its refusals as the library's errors. */
export async function call(db: Queryable, text: string, values: readonly unknown[]): Promise<Row[]> {
  try {
    return (await db.query(text, values)).rows;
  } catch (error) {
    throw operationErrorOf(error);
  }
}
