import { describe, expect, it } from 'vitest';
import type { Queryable } from '../../../shared/database/index.ts';
import { oneAtATime } from '../../../shared/outbox/relay/one-at-a-time.ts';
import { turn } from '../../support/moved-clock.ts';

describe('statements on the shared connection', () => {
  it('run one after the other in the order of asking, also after one that failed', async () => {
    const started: string[] = [];
    const finish: (() => void)[] = [];
    const connection: Queryable = {
      query: (text) =>
        new Promise((resolve, reject) => {
          started.push(text);
          finish.push(() => (text === 'broken' ? reject(new Error(text)) : resolve({ rows: [text], rowCount: 1 })));
        }),
    };
    const db = oneAtATime(connection);
    const answers = ['first', 'broken', 'last'].map(async (text) =>
      db.query(text).then(
        ({ rows }) => rows[0],
        () => 'failed',
      ),
    );
    for (const expected of [['first'], ['first', 'broken'], ['first', 'broken', 'last']]) {
      await turn();
      expect(started).toEqual(expected);
      finish.at(-1)?.();
    }
    expect(await Promise.all(answers)).toEqual(['first', 'failed', 'last']);
  });
});
