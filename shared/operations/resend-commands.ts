import { argumentsOf, type Command } from './command.ts';
import { aggregateId, aggregateType, destination, limit, replayNumber } from './fields.ts';

const scope = {
  aggregateType: { ...aggregateType, description: 'only events of aggregates of this type' },
  aggregateId: { ...aggregateId, description: 'only of this aggregate, with --aggregate-type' },
  types: {
    type: 'array',
    minItems: 1,
    maxItems: 100,
    items: { type: 'string', minLength: 1, maxLength: 128 },
    description: 'only events of these types, separated by commas',
  },
  eventIds: {
    type: 'array',
    minItems: 1,
    maxItems: 10_000,
    items: { type: 'string', format: 'uuid' },
    description: 'only these events, separated by commas',
  },
  from: { type: 'string', format: 'date-time', description: "by the event's own time: from this on" },
  to: { type: 'string', format: 'date-time', description: 'up to this, excluded' },
} as const;

const REPLAYS = { replays: ['number', 'destination', 'state', 'planned', 'sent', 'waiting', 'parked', 'reason'] };
const queue = { ...destination, description: 'the queue, as `dead-letters list` names it' } as const;

/** What sends again: replays, and dead letters. */
export const resendCommands = {
  'replay count': {
    summary: 'The dry run of a replay: how many events it would send. Reads the whole event table.',
    kind: 'look',
    area: 'outbox',
    arguments: argumentsOf(['destination'], { destination, ...scope }),
    places: ['destination'],
    examples: ['ledger --aggregate-type invoice --from 2026-11-01T00:00:00Z'],
  },
  'replay start': {
    summary: 'Sends events again that were sent before, to one destination, beside the live ones.',
    kind: 'act',
    area: 'outbox',
    arguments: argumentsOf(['destination'], {
      destination,
      ...scope,
      perSecond: {
        type: 'integer',
        minimum: 1,
        maximum: 100_000,
        description: 'messages a second at most, of all relays together; default 500',
      },
      paused: { type: 'boolean', description: 'waits for `replay resume`: time to reset the consumers' },
      fromArchive: { type: 'boolean', description: 'waits for `replay return`, which brings archived events back' },
    }),
    places: ['destination'],
    confirm: { type: 'destination', because: 'What is sent cannot be taken back; `replay cancel` stops the rest.' },
    before: 'replay count',
    examples: [
      'ledger --aggregate-type invoice --per-second 500 --paused --reason "totals were wrong, INC-7"',
      'ledger --from 2026-11-01T00:00:00Z --dry-run',
    ],
  },
  'replay return': {
    summary: 'Brings archived events in its scope back for a replay that waits for them, day by day; then it goes.',
    kind: 'act',
    area: 'archive',
    arguments: argumentsOf(['number'], {
      number: replayNumber,
      fromDay: {
        type: 'string',
        anyOf: [
          { type: 'string', format: 'date' },
          { type: 'string', pattern: '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])/[0-9a-f-]{36}$' },
        ],
        description: 'goes on at this day, or at the place in a day that the answer of an interrupted call names',
      },
    }),
    places: ['number'],
    before: 'replay show',
    examples: ['7 --reason "rebuilt from 2025, INC-7"', '7 --from-day 2025-11-30 --reason "goes on, INC-7"'],
  },
  'replay list': {
    summary: 'Replays and how they stand, newest first.',
    kind: 'glance',
    area: 'outbox',
    arguments: argumentsOf([], { limit }),
    places: [],
    columns: REPLAYS,
    examples: [''],
  },
  'replay show': {
    summary: 'How one replay stands; with --watch until it has ended.',
    kind: 'glance',
    area: 'outbox',
    arguments: argumentsOf(['number'], { number: replayNumber }),
    places: ['number'],
    examples: ['7', '7 --watch'],
  },
  'replay pause': {
    summary: 'Nothing more of it is sent within about a second.',
    kind: 'act',
    area: 'outbox',
    arguments: argumentsOf(['number'], { number: replayNumber }),
    places: ['number'],
    examples: ['7 --reason "the ledger is slow, INC-7"'],
  },
  'replay resume': {
    summary: 'It goes on where it stood.',
    kind: 'act',
    area: 'outbox',
    arguments: argumentsOf(['number'], { number: replayNumber }),
    places: ['number'],
    examples: ['7 --reason "ledger is empty, INC-7"'],
  },
  'replay cancel': {
    summary: 'Ends it for good and removes what it has not sent; again finishes an interrupted one.',
    kind: 'act',
    area: 'outbox',
    arguments: argumentsOf(['number'], { number: replayNumber }),
    places: ['number'],
    confirm: { type: 'number', because: 'A cancelled replay does not go on; only a new one sends the rest.' },
    before: 'replay show',
    examples: ['7 --reason "wrong scope, INC-7"'],
  },
  'dead-letters list': {
    summary: 'Messages in each dead-letter queue, as SQS counts them: approximately.',
    kind: 'glance',
    area: 'queues',
    arguments: argumentsOf([], {}),
    places: [],
    examples: ['', '--watch'],
  },
  'dead-letters redrive': {
    summary: 'Sends dead letters to their queue again, each group in order; stops when they come back.',
    kind: 'act',
    area: 'queues',
    arguments: argumentsOf(['queue'], {
      queue,
      perSecond: {
        type: 'integer',
        minimum: 1,
        maximum: 3000,
        description: 'messages a second at most; default 50. Begin slowly',
      },
    }),
    places: ['queue'],
    confirm: { type: 'queue', because: 'A consumer that is not mended yet gives them up again.' },
    before: 'dead-letters list',
    examples: ['ledger --per-second 5 --reason "corrected in release 42, INC-7"', 'ledger --dry-run'],
  },
} as const satisfies Readonly<Record<string, Command>>;
