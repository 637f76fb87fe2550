import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { isDatabaseAway } from '../../../functions/sample/api/connection.ts';
import { unitOfWork } from '../../../functions/sample/api/unit-of-work.ts';

const coded = (code: string) => Object.assign(new Error('as the server says it'), { code });

describe('isDatabaseAway', () => {
  it.each<[string, unknown]>([
    ['a refused connection', coded('ECONNREFUSED')],
    ['a name that is not found', coded('ENOTFOUND')],
    ['too many connections', coded('53300')],
    ['a server that shuts down', coded('57P01')],
    ['a broken connection', coded('08006')],
    ['a statement that took too long', coded('57014')],
    ['a connection that ended under a query', new Error('Connection terminated unexpectedly')],
    ['a pool that waited too long', new Error('timeout exceeded when trying to connect')],
    ['all addresses refused', new AggregateError([coded('ECONNREFUSED'), coded('ECONNREFUSED')])],
  ])('is true for %s', (_, error) => {
    expect(isDatabaseAway(error)).toBe(true);
  });

  it.each<[string, unknown]>([
    ['a unique violation', coded('23505')],
    ['a syntax error', coded('42601')],
    ['a wrong password', coded('28P01')],
    ['a bug', new TypeError('x is not a function')],
    ['several faults of which one is a bug', new AggregateError([coded('ECONNREFUSED'), new TypeError('x')])],
    ['nothing', undefined],
  ])('is false for %s', (_, error) => {
    expect(isDatabaseAway(error)).toBe(false);
  });
});

describe('unitOfWork', () => {
  /** A pool whose client remembers its statements. */
  function recorder() {
    const statements: string[] = [];
    const client = {
      query: async (text: string) => {
        statements.push(text);
        return { command: text.toUpperCase(), rows: [], rowCount: null };
      },
      on: () => client,
      off: () => client,
      release: () => {},
    };
    return { statements, pool: { connect: () => Promise.resolve(client) } as unknown as pg.Pool };
  }

  it.each(['40P01', '40001'])('runs the transaction again after %s', async (code) => {
    const { pool, statements } = recorder();
    let runs = 0;
    const result = await unitOfWork(pool, {}, () => {
      runs += 1;
      return runs < 3 ? Promise.reject(coded(code)) : Promise.resolve('done');
    });
    expect(result).toBe('done');
    expect(statements).toEqual(['begin', 'rollback', 'begin', 'rollback', 'begin', 'commit']);
  });

  it('gives up after three runs, and at once for another error', async () => {
    for (const [code, runs] of [
      ['40P01', 3],
      ['23505', 1],
    ] as const) {
      const { pool, statements } = recorder();
      await expect(unitOfWork(pool, {}, () => Promise.reject(coded(code)))).rejects.toMatchObject({ code });
      expect(statements.filter((text) => text === 'rollback')).toHaveLength(runs);
    }
  });
});
