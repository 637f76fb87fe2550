import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { testDatabase } from '../../support/database.ts';
import { testOperator } from '../../support/operator.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const operator = await testOperator(database);

let consumers = 0;
/** A strict consumer of its own, with held events of aggregate `a`: [sequence, reason, body]. */
async function consumerWith(...held: readonly (readonly [sequence: number, reason: string, body?: string])[]) {
  consumers += 1;
  const consumer = `consumer-${consumers}`;
  await owner.query(`insert into inbox.consumer (name, mode, starting_point) values ($1, 'strict', 'beginning')`, [
    consumer,
  ]);
  await owner.query(`insert into inbox.stream_position values ($1, 'thing', 'a', 1)`, [consumer]);
  const ids: string[] = [];
  for (const [sequence, reason, body = '{}'] of held) {
    const id = randomUUID();
    ids.push(id);
    await owner.query(
      `insert into inbox.held_event (consumer, event_id, aggregate_type, aggregate_id, sequence, type, reason, body, attempts, due_at)
       values ($1, $2, 'thing', 'a', $3, 'thing.happened', $4, $5, 8, 'infinity')`,
      [consumer, id, sequence, reason, body],
    );
  }
  const heldOf = async () =>
    (
      await owner.query(
        `select sequence::int as n, reason, wanted, attempts from inbox.held_event where consumer = $1 order by 1`,
        [consumer],
      )
    ).rows;
  const position = async () =>
    (await owner.query(`select sequence from inbox.stream_position where consumer = $1`, [consumer])).rows[0]?.sequence;
  return { consumer, ids, heldOf, position };
}

const refused = (code: string) => ({ ok: false, outcome: 'refused', code });

describe('what a consumer holds', () => {
  it('is listed by consumer and reason, a page at a time', async () => {
    const { consumer, ids } = await consumerWith([2, 'failing'], [3, 'blocked']);
    expect(await operator.done('held list', { consumer })).toMatchObject({
      held: [
        { eventId: ids[0], sequence: '2', reason: 'failing', attempts: 8, blockedBehind: 1 },
        { eventId: ids[1], sequence: '3', reason: 'blocked' },
      ],
      next: null,
    });
    expect(await operator.done('held list', { consumer, heldAs: 'blocked' })).toMatchObject({
      held: [{ eventId: ids[1] }],
    });
    const { next } = await operator.done('held list', { consumer, limit: 1 });
    expect(await operator.done('held list', { consumer, after: next })).toMatchObject({ held: [{ eventId: ids[1] }] });
    expect(await operator.call('held list', { consumer: 'nobody' })).toMatchObject(refused('HELD_EVENT_UNKNOWN'));
  });

  it('is shown without its body, and with it only where it is asked for', async () => {
    const { consumer, ids } = await consumerWith([2, 'failing', '{"name":"canary"}']);
    const [eventId] = ids;
    expect(await operator.done('held show', { consumer, eventId })).toMatchObject({
      position: '1',
      expected: '2',
      body: null,
    });
    expect(await operator.done('held show', { consumer, eventId, data: true })).toMatchObject({
      body: '{"name":"canary"}',
    });
    expect(await operator.call('held show', { consumer, eventId: randomUUID() })).toMatchObject(
      refused('HELD_EVENT_UNKNOWN'),
    );
  });

  it.each(['malformed', 'unknown-type', 'unknown-version'])(
    'as %s is shown by its shape only: nobody vouches that what is personal in it is sealed',
    async (reason) => {
      const { consumer, ids } = await consumerWith([
        2,
        reason,
        '{"data":{"name":"canary","n":4711,"list":[true,null]}}',
      ]);
      const shown = await operator.done('held show', { consumer, eventId: ids[0], data: true });
      expect(JSON.parse(shown['body']!)).toEqual({
        data: { name: '(string, 6 characters)', n: '(number)', list: ['(boolean)', null] },
      });
      expect(JSON.stringify(shown)).not.toMatch(/canary|4711/);
    },
  );

  it('is tried again, skipped, released, each only where that makes sense', async () => {
    const failing = await consumerWith([2, 'failing'], [3, 'blocked']);
    const first = { consumer: failing.consumer, eventId: failing.ids[0] };
    expect(await operator.call('held release', first, 'r')).toMatchObject(refused('NOT_IN_STATE'));
    expect(await operator.done('held retry', first, 'mended')).toMatchObject({ decided: true });
    expect(await failing.heldOf()).toMatchObject([{ n: 2, wanted: 'retry', attempts: 0 }, { n: 3 }]);
    expect(await operator.done('held skip', first, 'a bug')).toEqual({ done: true });
    expect(await failing.heldOf()).toMatchObject([{ n: 3 }]);
    expect(await failing.position()).toBe('2');

    const late = await consumerWith([1, 'late']);
    const event = { consumer: late.consumer, eventId: late.ids[0] };
    expect(await operator.call('held retry', event, 'r')).toMatchObject(refused('NOT_IN_STATE'));
    expect(await operator.done('held release', event, 'its effect is missing')).toMatchObject({ decided: true });
    expect(await late.heldOf()).toMatchObject([{ wanted: 'release' }]);
  });

  it('goes on over a gap that a person accepts', async () => {
    const { consumer, position } = await consumerWith([5, 'gap']);
    const aggregate = { consumer, aggregateType: 'thing', aggregateId: 'a' };
    expect(await operator.done('accept-gap', aggregate, 'lost')).toEqual({ position: '4' });
    expect(await position()).toBe('4');
    expect(await operator.call('accept-gap', aggregate, 'lost')).toMatchObject(refused('NOT_IN_STATE'));
  });

  it('for another run: reset, and the end of it', async () => {
    const { consumer, heldOf } = await consumerWith([2, 'failing']);
    expect(await operator.call('consumer end-replay', { consumer }, 'r')).toMatchObject(refused('NOT_IN_STATE'));
    const reset = { consumer, replay: 7, aggregateType: 'thing' };
    expect(await operator.done('consumer reset', reset, 'wrong')).toEqual({ positions: 1, held: 1, generation: 2 });
    expect(await heldOf()).toMatchObject([{ reason: 'replay' }]);
    expect(await operator.call('consumer reset', reset, 'r')).toMatchObject(refused('NOT_IN_STATE'));
    expect(await operator.done('consumer end-replay', { consumer }, 'sent')).toEqual({ released: 1 });
  });

  it('and calls of which nobody knows whether they happened', async () => {
    const { consumer } = await consumerWith();
    const ids = [randomUUID(), randomUUID()];
    for (const id of ids) {
      await owner.query(
        `insert into inbox.external_call (consumer, event_id, name, idempotency_key, state, held_reason)
         values ($1, $2, 'mail', $3, 'held', 'CALL_UNANSWERED')`,
        [consumer, id, `key of ${id}`],
      );
    }
    expect(await operator.done('calls list')).toMatchObject({
      calls: expect.arrayContaining([
        expect.objectContaining({ consumer, eventId: ids[0], reason: 'CALL_UNANSWERED' }),
      ]),
    });
    const [happened, not] = ids.map((eventId) => ({ consumer, eventId, name: 'mail' }));
    await operator.done('calls record', { ...happened, answer: { id: 'canary-m-17' } }, 'seen');
    await operator.done('calls repeat', { ...not }, 'not there');
    const { rows } = await owner.query(
      'select state, response from inbox.external_call where consumer = $1 order by event_id = $2 desc',
      [consumer, ids[0]],
    );
    expect(rows).toEqual([
      { state: 'done', response: '{"id":"canary-m-17"}' },
      { state: 'reserved', response: null },
    ]);
    const { rows: acts } = await owner.query(
      `select arguments from outbox.operator_act where command = 'calls record'`,
    );
    expect(acts).toEqual([{ arguments: { ...happened, answer: '(not kept)' } }]);
    expect(JSON.stringify(operator.log.lines)).not.toContain('canary');
  });

  it('is refused where consumers have a database of their own', async () => {
    const elsewhere = await testOperator(database, { inbox: false });
    expect(await elsewhere.call('held list')).toMatchObject(refused('INBOX_ELSEWHERE'));
    expect(await elsewhere.done('status')).not.toHaveProperty('consumers');
  });
});
