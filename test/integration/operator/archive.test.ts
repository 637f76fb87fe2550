import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { folderArchive } from '../../../shared/archive/index.ts';
import { testDatabase } from '../../support/database.ts';
import { testOperator } from '../../support/operator.ts';
import { append, drain, installCatalogue, places, recordingPublisher, thing } from '../../support/outbox.ts';
import { letAge, pruneOutbox, publishAll, remaining } from '../../support/retention.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const path = mkdtempSync(join(tmpdir(), 'sealed-outbox-archive-'));
afterAll(() => rmSync(path, { recursive: true, force: true }));
const archive = { kind: 'folder', path } as const;
const operator = (budgetMs: number) => testOperator(database, { archive, budgetMs }, 'sealed_erasing_operator');

it('brings archived events back file by file, goes on where it stood in a day, and lets the replay go', async () => {
  await installCatalogue(owner);
  // Two files of one day, one of another.
  for (const [n, day] of ['2026-01-02', '2026-01-02', '2026-01-05'].entries()) {
    const events = ['a', 'b'].map((id) => ({ ...thing(id, { n }), occurred_at: `${day}T0${n}:00:00Z` }));
    await append(database.pool('sealed_writer'), ...events);
    await publishAll(owner);
    await letAge(owner, 30);
    await pruneOutbox(database.pool('sealed_janitor'), { archive: folderArchive(path) });
  }
  expect((await remaining(owner)).events).toEqual([]);

  const hurried = await operator(0);
  const scope = { destination: 'queue', aggregateType: 'thing', fromArchive: true };
  const { number } = await hurried.done('replay start', scope, 'rebuilt, INC-7');
  const first = await hurried.done('replay return', { number }, 'rebuilt, INC-7');
  const place = expect.stringMatching(/^2026-01-02\/[0-9a-f-]{36}$/) as string;
  expect(first).toEqual({ number, returned: 2, next: place, more: true });
  expect(await hurried.done('replay show', { number })).toMatchObject({ state: 'loading' });
  // What is there already is passed over.
  expect(await hurried.done('replay return', { number }, 'again')).toMatchObject({ returned: 0, next: place });
  const second = await hurried.done('replay return', { number, fromDay: first['next'] }, 'goes on');
  expect(second).toEqual({ number, returned: 2, next: expect.stringMatching(/^2026-01-05/) as string, more: true });
  const rest = await (await operator(60_000)).done('replay return', { number, fromDay: '2026-01-05' }, 'goes on');
  expect(rest).toEqual({ number, returned: 2, next: null, more: false });

  const queue = recordingPublisher();
  await drain(database, queue);
  expect(places(queue.accepted).toSorted()).toEqual(['a#1', 'a#2', 'a#3', 'b#1', 'b#2', 'b#3']);
  expect(await hurried.call('replay return', { number }, 'once more')).toMatchObject({
    outcome: 'refused',
    code: 'NOT_IN_STATE',
  });
});

it('is refused where the function reads no archive', async () => {
  const without = await testOperator(database);
  expect(await without.call('replay return', { number: 1 }, 'r')).toMatchObject({
    outcome: 'refused',
    code: 'ARCHIVE_ELSEWHERE',
  });
});
