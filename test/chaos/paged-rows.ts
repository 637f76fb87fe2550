import type pg from 'pg';
import type { Row } from '../../shared/database/index.ts';

const PAGE = 20_000;

/** Rows page by page: a run may have millions. */
export async function* rows(db: pg.Client, sql: string): AsyncGenerator<Row> {
  await db.query(`begin; declare page no scroll cursor for ${sql}`);
  try {
    for (;;) {
      const { rows: page } = await db.query(`fetch ${PAGE} from page`);
      if (page.length === 0) return;
      yield* page;
    }
  } finally {
    await db.query('commit');
  }
}
