import { argumentsOf, type Command } from './command.ts';
import { after, aggregateId, aggregateType, data, destination, limit, position } from './fields.ts';

const PARKED = ['position', 'destination', 'type', 'aggregateId', 'sequence', 'attempts', 'lastError', 'blockedBehind'];

/** What waits in the outbox, and what a person does about it. */
export const outboxCommands = {
  status: {
    summary: 'What waits where, who relays, what consumers hold, which replays there are.',
    kind: 'glance',
    area: 'outbox',
    arguments: argumentsOf([], {}),
    places: [],
    columns: { replays: ['number', 'destination', 'state', 'planned', 'sent', 'waiting', 'parked', 'reason'] },
    examples: ['', '--watch'],
  },
  'parked list': {
    summary: 'Events that a destination refused for good and that wait for a person, oldest first.',
    kind: 'look',
    area: 'outbox',
    arguments: argumentsOf([], { destination, after, limit }),
    places: [],
    columns: { parked: PARKED },
    examples: ['', '--destination ledger --limit 20'],
  },
  'parked show': {
    summary: 'One parked event: why it is parked and how many wait behind it.',
    kind: 'look',
    area: 'outbox',
    arguments: argumentsOf(['position'], { position, data }),
    places: ['position'],
    examples: ['4711', '4711 --data'],
  },
  'pending list': {
    summary: 'What waits longest to be sent, and the last refusal of those that are retried.',
    kind: 'look',
    area: 'outbox',
    arguments: argumentsOf([], { destination, limit }),
    places: [],
    columns: {
      pending: [
        'position',
        'destination',
        'type',
        'aggregateId',
        'sequence',
        'attempts',
        'dueInSeconds',
        'lastError',
        'createdAt',
      ],
    },
    examples: ['', '--destination ledger'],
  },
  'blocked list': {
    summary: 'Aggregates that wait behind a parked event; those without a head first, which only unblock lets go.',
    kind: 'look',
    area: 'outbox',
    arguments: argumentsOf([], { limit }),
    places: [],
    examples: [''],
  },
  'aggregate show': {
    summary: 'How far an aggregate has come, and what of it has not left yet.',
    kind: 'look',
    area: 'outbox',
    arguments: argumentsOf(['aggregateType', 'aggregateId'], { aggregateType, aggregateId, limit }),
    places: ['aggregateType', 'aggregateId'],
    columns: {
      unfinished: ['position', 'destination', 'type', 'sequence', 'state', 'attempts', 'lastError', 'createdAt'],
    },
    examples: ['invoice 6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f'],
  },
  redrive: {
    summary: 'Sends a parked event again, at once and with all its attempts; what was blocked follows it.',
    kind: 'act',
    area: 'outbox',
    arguments: argumentsOf(['position'], { position }),
    places: ['position'],
    examples: ['4711 --reason "limit raised to 1 MiB, INC-7"'],
  },
  skip: {
    summary: 'Leaves a parked event out at its destination; a tombstone goes out in its place.',
    kind: 'act',
    area: 'outbox',
    arguments: argumentsOf(['position'], { position }),
    places: ['position'],
    confirm: {
      type: 'position',
      because: 'The consumers of this destination will never have this event; later ones are sent in its place.',
    },
    before: 'parked show',
    examples: ['4711 --reason "written by a bug, replaced by event 0190…, INC-7"'],
  },
  unblock: {
    summary: 'Lets go what is blocked although nothing is parked before it.',
    kind: 'act',
    area: 'outbox',
    arguments: argumentsOf(['destination', 'aggregateType', 'aggregateId'], {
      destination,
      aggregateType,
      aggregateId,
    }),
    places: ['destination', 'aggregateType', 'aggregateId'],
    examples: ['ledger invoice 6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f --reason "orphaned, INC-8"'],
  },
  restore: {
    summary: 'Makes a database fit to go on that was restored from a backup, or failed over with loss.',
    kind: 'act',
    area: 'outbox',
    arguments: argumentsOf(['cluster'], {
      cluster: {
        type: 'string',
        pattern: '^[!-~]{1,200}$',
        description: 'identity of the database cluster: OUTBOX_CLUSTER of the relays',
      },
    }),
    places: ['cluster'],
    confirm: {
      type: 'cluster',
      because: 'Every later sequence is above any before, and relays of another identity refuse to run from now on.',
    },
    examples: ['the-new-cluster --reason "restored to 14:00, INC-9"'],
  },
  'acts list': {
    summary: 'Calls of this function: who, as they say, what, why, and how it ended; newest first.',
    kind: 'look',
    area: 'outbox',
    arguments: argumentsOf([], {
      before: {
        type: 'string',
        pattern: '^[1-9][0-9]{0,17}$',
        description: 'number of the last one of the page before',
      },
      limit,
    }),
    places: [],
    columns: { acts: ['number', 'startedAt', 'claimedBy', 'command', 'arguments', 'reason', 'outcome'] },
    examples: ['', '--limit 10'],
  },
} as const satisfies Readonly<Record<string, Command>>;
