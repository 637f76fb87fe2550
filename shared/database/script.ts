import pg from 'pg';
import type { Queryable, Result } from './queryable.ts';

/**
 * The SQL that `work` would run, for a person who runs it with a tool of their own. What `work` reads of PostgreSQL's catalog is answered by
 * `client`; everything else is written down, with its values in place, and not run.
 */
export async function scriptOf(client: Queryable, work: (recorder: Queryable) => Promise<void>): Promise<string> {
  const statements: string[] = [];
  await work({
    async query(text: string, values: readonly unknown[] = []): Promise<Result> {
      if (/\bfrom pg_/i.test(text)) return client.query(text, values);
      statements.push(text.replaceAll(/\$(\d+)/g, (_, number: string) => literal(values[Number(number) - 1])));
      return { rows: [], rowCount: 0 };
    },
  });
  return statements.map((statement) => `${statement.trim()};\n`).join('');
}

function literal(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return pg.escapeLiteral(value);
  if (Array.isArray(value)) return `array[${value.map(literal).join(', ')}]::text[]`;
  throw new TypeError('A statement has a value that is no text, number or list of texts.');
}
