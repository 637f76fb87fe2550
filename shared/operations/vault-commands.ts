import { argumentsOf, type Command } from './command.ts';

const dataClass = {
  type: 'string',
  pattern: '^[a-z][a-z0-9-]{0,15}$',
  description: 'the class of data, as `keys list` shows it',
} as const;
const index = {
  type: 'string',
  pattern: '^[a-z][a-z0-9-]{0,62}$',
  description: 'the name of the blind index, as `keys list` shows it',
} as const;
const kind = {
  type: 'string',
  minLength: 1,
  maxLength: 200,
  pattern: '^[^\\u0000-\\u001f]+$',
  description: 'whose data it is, as the catalogue calls such persons: customer',
} as const;
const id = {
  type: 'string',
  minLength: 1,
  maxLength: 200,
  pattern: '^[^\\u0000-\\u001f]+$',
  writeOnly: true,
  description: "the person's id; written down nowhere",
} as const;

const PERSON = '6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f';
const CLASSES = { classes: ['class', 'state', 'until', 'keptUntil'] };

/** Keys, and persons who are erased. */
export const vaultCommands = {
  'keys list': {
    summary: 'Branch keys and keys of blind indexes: version, state, age, and which are asked to be replaced.',
    kind: 'glance',
    area: 'vault',
    arguments: argumentsOf([], {}),
    places: [],
    columns: { keys: ['key', 'class', 'version', 'state', 'ageSeconds', 'requestedSeconds'] },
    examples: ['', '--watch'],
  },
  rotate: {
    summary: 'Has the janitor replace the branch key of a class, and wrap the keys of persons anew.',
    kind: 'act',
    area: 'vault',
    arguments: argumentsOf(['class'], { class: dataClass }),
    places: ['class'],
    examples: ['contact --reason "may have become known, INC-7"'],
  },
  'rotate-index': {
    summary: 'Has the janitor replace the key of a blind index, and bring its columns up to date.',
    kind: 'act',
    area: 'vault',
    arguments: argumentsOf(['index'], { index }),
    places: ['index'],
    examples: ['customer-email --reason "may have become known, INC-7"'],
  },
  renew: {
    summary: "Has the janitor give a person's key of a class a new version, which seals from then on.",
    kind: 'act',
    area: 'vault',
    arguments: argumentsOf(['class', 'kind', 'id'], { class: dataClass, kind, id }),
    places: ['class', 'kind', 'id'],
    examples: [`contact customer ${PERSON} --reason "may have become known, INC-7"`],
  },
  'erasures status': {
    summary: 'How many persons wait to be erased, are overdue, or have data that is only kept because it must be.',
    kind: 'glance',
    area: 'vault',
    arguments: argumentsOf([], {}),
    places: [],
    examples: ['', '--watch'],
  },
  'erasures show': {
    summary: 'What of a person is open, waits to be erased, is kept until when, or is erased.',
    kind: 'look',
    area: 'erasure',
    arguments: argumentsOf(['kind', 'id'], { kind, id }),
    places: ['kind', 'id'],
    columns: CLASSES,
    examples: [`customer ${PERSON}`],
  },
  'erasures cancel': {
    summary: 'Takes back an erasure whose delay still runs; what is erased or kept stays so.',
    kind: 'act',
    area: 'erasure',
    arguments: argumentsOf(['kind', 'id'], { kind, id }),
    places: ['kind', 'id'],
    examples: [`customer ${PERSON} --reason "asked for by mistake, INC-7"`],
  },
  erase: {
    summary: 'Erases a person: at once, or when the delay is over; the answer says what must be kept until when.',
    kind: 'act',
    area: 'erasure',
    arguments: argumentsOf(['kind', 'id'], { kind, id }),
    places: ['kind', 'id'],
    confirm: {
      type: 'id',
      because: "The keys of this person are destroyed: nobody opens the person's data any more, in no backup either.",
    },
    before: 'erasures show',
    columns: CLASSES,
    examples: [`customer ${PERSON} --reason "asked for by letter, DPO-7"`, `customer ${PERSON} --dry-run`],
  },
} as const satisfies Readonly<Record<string, Command>>;
