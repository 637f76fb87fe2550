import { beforeEach, describe, expect, it } from 'vitest';
import { runRelay } from '../../shared/outbox/index.ts';
import { testDatabase } from '../support/database.ts';
import { until } from '../support/lease-clock.ts';
import {
  append,
  installCatalogue,
  orderBreaks,
  places,
  recordingPublisher,
  relayOptions,
  thing,
} from '../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer', 8);
/** Pages so small that one transaction fills several. */
const WINDOW = { rows: 200, bytes: 32 * 1024 * 1024, page: 10, rowsOfAggregate: 5 };

beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay');
  await installCatalogue(owner);
});

describe('a transaction that commits late', () => {
  it('like case 51: with more events than a page: all are sent, each before what follows it of its aggregate', async () => {
    const late = await database.client('sealed_writer');
    await late.query('begin');
    const own = Array.from({ length: 35 }, (_, n) => thing(`late-${n % 7}`));
    await append(late, ...own);
    const queue = recordingPublisher();
    const stop = new AbortController();
    const running = runRelay(
      relayOptions(database, { queue }, { mode: 'continuous', window: WINDOW, signal: stop.signal }),
    );
    await append(writer, ...Array.from({ length: 60 }, (_, n) => thing(`early-${n}`)));
    await until('those that overtook it', () => queue.accepted.length === 60);
    const followers = Array.from({ length: 7 }, (_, n) => append(writer, thing(`late-${n}`)));
    await late.query('commit');
    await Promise.all(followers);
    await until('all of them', () => queue.accepted.length === 102);
    stop.abort();
    await running;
    for (let n = 0; n < 7; n += 1) {
      expect(places(queue.accepted).filter((place) => place.startsWith(`late-${n}#`))).toEqual(
        Array.from({ length: 6 }, (_, index) => `late-${n}#${index + 1}`),
      );
    }
    expect(orderBreaks(queue.accepted)).toBe(0);
  });

  it('like case 51: behind one that had taken its place before it and rolls back', async () => {
    const [late, undone] = [await database.client('sealed_writer'), await database.client('sealed_writer')];
    await undone.query('begin');
    await append(undone, thing('x'));
    await late.query('begin');
    await late.query('select pg_current_xact_id()');
    const queue = recordingPublisher();
    const stop = new AbortController();
    const running = runRelay(
      relayOptions(database, { queue }, { mode: 'continuous', window: WINDOW, signal: stop.signal }),
    );
    await append(writer, thing('early'));
    await until('the early one', () => queue.accepted.length === 1);
    const waiting = append(late, thing('x'), thing('x'));
    await undone.query('rollback');
    await waiting;
    const third = append(writer, thing('x'));
    await late.query('commit');
    await third;
    await until('all of them', () => queue.accepted.length === 4);
    stop.abort();
    await running;
    expect(places(queue.accepted)).toEqual(['early#1', 'x#1', 'x#2', 'x#3']);
  });
});
