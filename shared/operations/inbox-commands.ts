import { argumentsOf, type Command } from './command.ts';
import { after, aggregateId, aggregateType, consumer, data, eventId, limit, replayNumber } from './fields.ts';

const EVENT = '01936f00-0000-7000-8000-000000000001';
const heldEvent = argumentsOf(['consumer', 'eventId'], { consumer, eventId });
const callName = {
  type: 'string',
  minLength: 1,
  maxLength: 63,
  description: "the call's name, as `calls list` shows it",
} as const;

/** What consumers hold, and what a person does about it. */
export const inboxCommands = {
  'held list': {
    summary: 'Events that a consumer keeps because it cannot apply them now, oldest first.',
    kind: 'look',
    area: 'inbox',
    arguments: argumentsOf([], {
      consumer,
      heldAs: {
        type: 'string',
        enum: [
          'gap',
          'late',
          'failing',
          'blocked',
          'malformed',
          'unknown-type',
          'unknown-version',
          'too-old',
          'denied',
          'replay',
        ],
        description: 'only those held for this reason, such as failing or gap',
      },
      after,
      limit,
    }),
    places: [],
    columns: {
      held: [
        'consumer',
        'eventId',
        'type',
        'aggregateId',
        'sequence',
        'reason',
        'attempts',
        'lastError',
        'wanted',
        'blockedBehind',
      ],
    },
    examples: ['', '--consumer ledger --held-as failing'],
  },
  'held show': {
    summary: 'One held event: why it is held, and where its aggregate stands.',
    kind: 'look',
    area: 'inbox',
    arguments: argumentsOf(['consumer', 'eventId'], { consumer, eventId, data }),
    places: ['consumer', 'eventId'],
    examples: [`ledger ${EVENT}`, `ledger ${EVENT} --data`],
  },
  'held retry': {
    summary: 'Has the consumer try it again, with all its attempts.',
    kind: 'act',
    area: 'inbox',
    arguments: heldEvent,
    places: ['consumer', 'eventId'],
    examples: [`ledger ${EVENT} --reason "corrected in release 42, INC-7"`],
  },
  'held skip': {
    summary: 'Leaves a held event out for good; what waits behind it goes on.',
    kind: 'act',
    area: 'inbox',
    arguments: heldEvent,
    places: ['consumer', 'eventId'],
    confirm: { type: 'eventId', because: 'Its effect will never happen at this consumer.' },
    before: 'held show',
    examples: [`ledger ${EVENT} --reason "written by a bug, replaced by 0190…, INC-7"`],
  },
  'held release': {
    summary: 'Has the consumer apply an event all the same that is late or older than its window.',
    kind: 'act',
    area: 'inbox',
    arguments: heldEvent,
    places: ['consumer', 'eventId'],
    confirm: { type: 'eventId', because: 'It is applied out of order, or perhaps a second time: state may go back.' },
    before: 'held show',
    examples: [`ledger ${EVENT} --reason "effect is missing, INC-7"`],
  },
  'accept-gap': {
    summary: 'Has a consumer go on although what is before the lowest waiting event of an aggregate never comes.',
    kind: 'act',
    area: 'inbox',
    arguments: argumentsOf(['consumer', 'aggregateType', 'aggregateId'], { consumer, aggregateType, aggregateId }),
    places: ['consumer', 'aggregateType', 'aggregateId'],
    confirm: { type: 'aggregateId', because: 'What is missing is late when it comes after all.' },
    examples: ['ledger invoice 6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f --reason "lost with the old queue, INC-7"'],
  },
  'calls list': {
    summary: 'Calls of other systems of which nobody knows whether they happened, oldest first.',
    kind: 'look',
    area: 'inbox',
    arguments: argumentsOf([], { limit }),
    places: [],
    examples: [''],
  },
  'calls record': {
    summary: 'Says that a held call did happen, and what it answered.',
    kind: 'act',
    area: 'inbox',
    arguments: argumentsOf(['consumer', 'eventId', 'name', 'answer'], {
      consumer,
      eventId,
      name: callName,
      answer: {
        description:
          "what the event's next delivery is given: JSON, 16,384 bytes at most. It is kept in no audit and no log",
        writeOnly: true,
      },
    }),
    places: ['consumer', 'eventId', 'name'],
    confirm: { type: 'eventId', because: 'The call is not made any more.' },
    examples: [`notifications ${EVENT} mail --answer '{"messageId":"m-17"}' --reason "found at the provider, INC-7"`],
  },
  'calls repeat': {
    summary: 'Has a held call made again, with the same key: it did not happen, or may happen twice.',
    kind: 'act',
    area: 'inbox',
    arguments: argumentsOf(['consumer', 'eventId', 'name'], { consumer, eventId, name: callName }),
    places: ['consumer', 'eventId', 'name'],
    confirm: {
      type: 'eventId',
      because: 'If it did happen, and the provider does not know its key, it happens twice.',
    },
    examples: [`notifications ${EVENT} mail --reason "the provider has no trace of it, INC-7"`],
  },
  'consumer reset': {
    summary: 'Makes a consumer forget aggregates and accept the messages of one replay for them.',
    kind: 'act',
    area: 'inbox',
    arguments: argumentsOf(['consumer', 'replay'], {
      consumer,
      replay: replayNumber,
      aggregateType: { ...aggregateType, description: 'only aggregates of this type; all without it' },
      aggregateId: { ...aggregateId, description: 'only this one, with --aggregate-type' },
    }),
    places: ['consumer', 'replay'],
    confirm: {
      type: 'consumer',
      because: 'Its positions in scope are removed, and live events of them are held until the replay ends.',
    },
    examples: ['ledger 7 --aggregate-type invoice --reason "totals were wrong, INC-7"'],
  },
  'consumer end-replay': {
    summary: "Ends a consumer's replay: what was held meanwhile is applied, in order.",
    kind: 'act',
    area: 'inbox',
    arguments: argumentsOf(['consumer'], { consumer }),
    places: ['consumer'],
    confirm: { type: 'consumer', because: 'Messages of the replay that come later are acknowledged without effect.' },
    examples: ['ledger --reason "all is sent, INC-7"'],
  },
} as const satisfies Readonly<Record<string, Command>>;
