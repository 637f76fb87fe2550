import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ReceivedEvent } from '../../../shared/events/index.ts';
import { handlerCalls } from '../../../shared/inbox/handler-calls.ts';
import { stepsOf } from '../../../shared/inbox/handlers.ts';
import type { EventMessage } from '../../../shared/inbox/message.ts';
import { fifoRecord, standardRecord } from '../../support/sqs-batch.ts';

const many = stepsOf({ handleMany: async () => {} });
const single = stepsOf(async () => {});

interface Given {
  readonly aggregateId: string;
  readonly type: string;
  readonly group?: string | undefined;
}

function message({ aggregateId, type, group }: Given, steps = many): EventMessage {
  return {
    kind: 'event',
    record: group === undefined ? standardRecord('') : fifoRecord(group, ''),
    event: { aggregateType: 'counter', aggregateId, type } as ReceivedEvent,
    steps,
    passedAs: 'ignored',
  };
}

const anyGiven = fc.record({
  aggregateId: fc.constantFrom('a', 'b', 'c', 'd'),
  type: fc.constantFrom('added', 'reset', 'closed'),
  group: fc.constantFrom('g', 'h', undefined),
});

describe('the calls of a transaction', () => {
  it('have each message once, of one type each, and keep the order of aggregates and groups', () => {
    fc.assert(
      fc.property(fc.array(anyGiven, { maxLength: 20 }), fc.boolean(), (given, mixed) => {
        const messages = given.map((each) => message(each, mixed && each.type === 'reset' ? single : many));
        const calls = handlerCalls(messages);
        const called = calls.flat();
        expect(called.toSorted((a, b) => messages.indexOf(a) - messages.indexOf(b))).toEqual(messages);
        for (const call of calls) {
          expect(new Set(call.map(({ event }) => event.type)).size).toBe(1);
          if (call[0].steps === single) expect(call).toHaveLength(1);
        }
        const orders = [
          ({ event }: EventMessage) => event.aggregateId,
          ({ record }: EventMessage) => record.attributes.MessageGroupId,
        ];
        for (const key of orders) {
          for (const value of new Set(messages.map(key))) {
            if (value === undefined) continue;
            const own = (list: readonly EventMessage[]) => list.filter((each) => key(each) === value);
            expect(own(called)).toEqual(own(messages));
          }
        }
      }),
    );
  });

  it('are one per type where each aggregate has one event, however these are mixed', () => {
    const types = ['added', 'reset', 'added', 'closed', 'reset', 'added'];
    const calls = handlerCalls(types.map((type, index) => message({ aggregateId: `${index}`, type })));
    expect(calls.map((call) => call.map(({ event }) => event.aggregateId))).toEqual([
      ['0', '2', '5'],
      ['1', '4'],
      ['3'],
    ]);
  });

  it('are two where an aggregate changes its type and another follows it', () => {
    const given = [
      { aggregateId: 'a', type: 'added' },
      { aggregateId: 'a', type: 'closed' },
      { aggregateId: 'b', type: 'added' },
      { aggregateId: 'b', type: 'closed' },
    ];
    const calls = handlerCalls(given.map((each) => message(each)));
    expect(calls.map((call) => call.map(({ event }) => `${event.aggregateId} ${event.type}`))).toEqual([
      ['a added', 'b added'],
      ['a closed', 'b closed'],
    ]);
  });

  it('do not take several of a message group out of its order', () => {
    const given = [
      { aggregateId: 'a', type: 'added', group: 'g' },
      { aggregateId: 'b', type: 'closed', group: 'g' },
      { aggregateId: 'c', type: 'added', group: 'g' },
    ];
    expect(handlerCalls(given.map((each) => message(each)))).toHaveLength(3);
  });
});
