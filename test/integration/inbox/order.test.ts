import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { decide } from '../../../shared/inbox/order.ts';
import { counterConsumer, createEffects, effectsOf, heldOf, inboxOf } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { fifoRecord, invoke } from '../../support/sqs-batch.ts';

const EPOCH = 2n ** 40n;
const database = await testDatabase();
beforeAll(() => createEffects(database));

const message = (counter: string, sequence: number | bigint, type = 'counter.added') =>
  fifoRecord(counter, counterEnvelope({ counter, sequence, type }));

describe('a strict consumer', () => {
  it('holds what comes early, says what it expected, and applies all in order when the gap closes', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler, log, metrics } = counterConsumer({ name: 'gap', pool });
    const [one, two, three, four] = [message('a', 1), message('a', 2), message('a', 3), message('a', 4)];

    expect(await invoke(handler, [one, four, three])).toEqual([]);
    expect(log.lines).toMatchObject([
      { level: 'warn', fields: { consumer: 'gap', reason: 'gap', aggregateId: 'a', expected: '2', sequence: '4' } },
      { level: 'warn', fields: { consumer: 'gap', reason: 'gap', aggregateId: 'a', expected: '2', sequence: '3' } },
    ]);
    expect(metrics.sum('Held', { Reason: 'gap' })).toBe(2);
    expect(await inboxOf(pool, 'gap', 'a')).toEqual({ processed: 1, position: '1' });
    // Redelivered meanwhile: acknowledged, and held once.
    expect(await invoke(handler, [three])).toEqual([]);

    expect(await invoke(handler, [two])).toEqual([]);
    expect(await heldOf(pool, 'gap')).toEqual([]);
    expect(await inboxOf(pool, 'gap', 'a')).toEqual({ processed: 4, position: '4' });
    expect(await invoke(handler, [three, four])).toEqual([]);
    expect(metrics.sum('Drained')).toBe(2);
    expect((await effectsOf(pool, 'gap')).map(({ sequence }) => sequence)).toEqual(['1', '2', '3', '4']);
  });

  it('case 35: neither applies nor loses an event that comes after its successors', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler, log } = counterConsumer({ name: 'late', pool, startingPoint: 'first-seen' });
    const [first, second] = [message('a', 1), message('a', 2)];
    expect(await invoke(handler, [second])).toEqual([]);

    for (let redrive = 0; redrive < 3; redrive += 1) {
      expect(await invoke(handler, [first])).toEqual([]);
    }
    expect(log.lines[0]).toMatchObject({ level: 'error', fields: { reason: 'late', expected: '3', sequence: '1' } });
    expect(await heldOf(pool, 'late')).toEqual([{ counter: 'a', sequence: '1', reason: 'late' }]);
    expect(await effectsOf(pool, 'late')).toEqual([{ counter: 'a', sequence: '2' }]);
    expect(await inboxOf(pool, 'late', 'a')).toEqual({ processed: 1, position: '2' });
    expect(await invoke(handler, [message('a', 3)])).toEqual([]);
  });

  it('starts at the beginning of any epoch, or at what it sees first', async () => {
    const pool = database.pool('sealed_ledger');
    const beginning = counterConsumer({ name: 'beginning', pool });
    const middle = message('a', 5);
    expect(await invoke(beginning.handler, [middle])).toEqual([]);
    expect(beginning.log.lines).toMatchObject([{ fields: { reason: 'gap', expected: '1' } }]);
    expect(await inboxOf(pool, 'beginning', 'a')).toEqual({ processed: 0, position: null });
    expect(await invoke(beginning.handler, [message('b', EPOCH + 1n), message('b', EPOCH + 2n)])).toEqual([]);

    const firstSeen = counterConsumer({ name: 'first-seen', pool, startingPoint: 'first-seen' });
    expect(await invoke(firstSeen.handler, [message('a', 5), message('a', 6)])).toEqual([]);
    const after = message('a', 8);
    expect(await invoke(firstSeen.handler, [after])).toEqual([]);
    expect(await heldOf(pool, 'first-seen')).toEqual([{ counter: 'a', sequence: '8', reason: 'gap' }]);
  });

  it('jumps to the first event of a higher epoch, and takes what is left of the lower one for late', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler, log } = counterConsumer({ name: 'epoch', pool });
    const tooEarly = message('a', EPOCH + 2n);
    expect(await invoke(handler, [message('a', 1), tooEarly])).toEqual([]);
    expect(log.lines).toMatchObject([{ fields: { reason: 'gap', expected: `${EPOCH + 1n}` } }]);
    expect(await invoke(handler, [message('a', EPOCH + 1n), tooEarly])).toEqual([]);
    expect(await invoke(handler, [message('a', 2)])).toEqual([]);
    expect(await heldOf(pool, 'epoch')).toEqual([{ counter: 'a', sequence: '2', reason: 'late' }]);
    expect(await inboxOf(pool, 'epoch', 'a')).toEqual({ processed: 3, position: `${EPOCH + 2n}` });
  });

  it('moves over a type without a handler and over a tombstone, once', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler, log, metrics } = counterConsumer({ name: 'ignores', pool });
    const renamed = message('a', 2, 'counter.renamed');
    const skipped = message('a', 3, 'outbox.skipped');
    expect(await invoke(handler, [message('a', 1), renamed, skipped, message('a', 4)])).toEqual([]);
    expect(await invoke(handler, [renamed])).toEqual([]);
    expect((await effectsOf(pool, 'ignores')).map(({ sequence }) => sequence)).toEqual(['1', '4']);
    expect(await inboxOf(pool, 'ignores', 'a')).toEqual({ processed: 4, position: '4' });
    expect(metrics.sum('Ignored')).toBe(2);
    expect(metrics.sum('Repeats')).toBe(1);
    expect(log.lines.filter(({ level }) => level === 'info')).toMatchObject([
      { fields: { eventType: 'counter.renamed', sequence: '2' } },
      { fields: { eventType: 'outbox.skipped', sequence: '3' } },
    ]);
  });

  it('takes a tombstone that comes after the event whose place it took: nothing goes back in time, nothing is returned', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler, metrics } = counterConsumer({ name: 'tombstone-late', pool });
    const late = message('a', 2, 'outbox.skipped');
    expect(await invoke(handler, [message('a', 1), message('a', 2), message('a', 3)])).toEqual([]);
    expect(await invoke(handler, [late, message('a', 4)])).toEqual([]);
    expect(await inboxOf(pool, 'tombstone-late', 'a')).toEqual({ processed: 5, position: '4' });
    expect((await effectsOf(pool, 'tombstone-late')).map(({ sequence }) => sequence)).toEqual(['1', '2', '3', '4']);
    expect(metrics.sum('Ignored')).toBe(1);
    // One that comes early is a gap like any other.
    expect(await invoke(handler, [message('a', 6, 'outbox.skipped')])).toEqual([]);
    expect(await heldOf(pool, 'tombstone-late')).toEqual([{ counter: 'a', sequence: '6', reason: 'gap' }]);
  });

  it('keeps aggregates of equal ids and of other consumers apart', async () => {
    const pool = database.pool('sealed_ledger');
    for (const name of ['apart-one', 'apart-two']) {
      const { handler } = counterConsumer({ name, pool });
      expect(await invoke(handler, [message('a', 1), message('b', 1), message('a', 2)])).toEqual([]);
    }
  });

  it('stays in order when several functions get the events of one aggregate at the same time', async () => {
    const name = 'racing';
    const events = Array.from({ length: 30 }, (_, index) => message('a', index + 1));
    const functions = [1, 2, 3].map(() => counterConsumer({ name, pool: database.pool('sealed_ledger', 2) }));
    // Each function works through all events by itself; a refused one comes again, as from a queue.
    await Promise.all(
      functions.map(async ({ handler }, offset) => {
        let waiting = [...events.slice(offset * 7), ...events.slice(0, offset * 7)];
        const deadline = Date.now() + 30_000;
        while (waiting.length > 0 && Date.now() < deadline) {
          const returned = new Set(
            await invoke(
              handler,
              waiting.map((record) => ({
                ...record,
                attributes: { ...record.attributes, MessageGroupId: record.messageId },
              })),
            ),
          );
          waiting = waiting.filter(({ messageId }) => returned.has(messageId));
        }
        expect(waiting).toEqual([]);
      }),
    );
    const effects = await effectsOf(database.pool('sealed_ledger'), name);
    expect(effects.map(({ sequence }) => Number(sequence))).toEqual(events.map((_, index) => index + 1));
  });
});

describe('inbox.take', () => {
  it('does in the database what decide says', async () => {
    const client = await database.client('sealed_ledger');
    const sequence = fc
      .tuple(fc.bigInt({ min: 0n, max: 2n }), fc.bigInt({ min: 1n, max: 4n }))
      .map(([epoch, place]) => epoch * EPOCH + place);
    let run = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.option(sequence, { nil: null }),
        fc.array(sequence, { minLength: 1, maxLength: 4 }),
        fc.constantFrom('any' as const, 'latest' as const, 'strict' as const),
        fc.constantFrom('beginning' as const, 'first-seen' as const),
        async (position, sequences, mode, startingPoint) => {
          run += 1;
          const subject = `run ${run}`;
          if (position !== null) {
            await client.query(`insert into inbox.stream_position values ('model', 'counter', $1, $2)`, [
              subject,
              position.toString(),
            ]);
          }
          const events = sequences.map((next) => ({
            id: randomUUID(),
            time: new Date().toISOString(),
            type: 'counter.added',
            aggregate: 'counter',
            subject,
            sequence: next.toString(),
          }));
          await client.query('begin');
          const { rows } = await client.query(
            `select outcome, expected from inbox.take('model', $1, $2, '35 days', $3) order by place`,
            [mode, startingPoint, JSON.stringify(events)],
          );
          await client.query('select inbox.finish(); commit');
          let last = position;
          for (const [index, next] of sequences.entries()) {
            const decision = decide(last, next, mode, startingPoint);
            expect(rows[index].outcome).toBe(decision.kind);
            if ('expected' in decision) expect(BigInt(rows[index].expected)).toBe(decision.expected);
            if (decision.kind === 'apply') last = next;
          }
          const stored = await client.query(
            `select sequence from inbox.stream_position where consumer = 'model' and aggregate_id = $1`,
            [subject],
          );
          const kept = (stored.rows[0] as { sequence: string } | undefined)?.sequence;
          expect(BigInt(kept ?? 0)).toBe((mode === 'any' ? position : last) ?? 0n);
        },
      ),
      { numRuns: 150 },
    );
  });
});
