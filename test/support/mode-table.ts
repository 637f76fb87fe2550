import type { Mode, StartingPoint } from '../../shared/inbox/index.ts';
import { table } from './document-tables.ts';
import type { Shown } from './shown.ts';

const EPOCH = 2n ** 40n;
const UNREADABLE = 'test/integration/inbox/unreadable.test.ts';

/** What has happened when all has arrived, one message after the other. */
export interface Outcome {
  readonly applied: readonly (number | bigint)[];
  /** Sequence and reason. */
  readonly held?: readonly string[];
  readonly dropped?: number;
  readonly repeats?: number;
  readonly ignored?: number;
}

/**
 * A sequence; `again`: the same event once more; `replayed`: the same event in a replay that nobody accepted; `skipped`: a tombstone in its
 * place; `unreadable`: an event of a version that the consumer does not know; `unreadableReplayed`: both.
 */
export type Arrival =
  | number
  | bigint
  | { readonly again: number }
  | { readonly replayed: number }
  | { readonly skipped: number }
  | { readonly unreadable: number }
  | { readonly unreadableReplayed: number };

/** What arrives, and what a consumer of each mode has made of it. */
export interface Scenario extends Readonly<Record<Mode, Outcome>> {
  readonly when: string;
  readonly startingPoint?: StartingPoint;
  readonly arrives: readonly Arrival[];
}

/** A row of the table of docs/consumer.md, with what shows it. */
export interface ModeRow {
  readonly what: string;
  readonly says: Readonly<Record<Mode, string>>;
  readonly scenarios: readonly Scenario[];
  /** Tests of a cell beside the scenarios. */
  readonly shown?: Partial<Record<Mode, Shown>>;
}

export const MODES: readonly Mode[] = ['any', 'latest', 'strict'];

const alike = (text: string): Record<Mode, string> => ({ any: text, latest: text, strict: text });

export const MODE_ROWS: readonly ModeRow[] = [
  {
    what: 'gap: an earlier event is missing',
    says: {
      any: 'applied',
      latest: 'applied',
      strict: 'held as `gap`, applied in order when the missing one has come',
    },
    scenarios: [
      {
        when: 'a gap',
        arrives: [1, 3],
        any: { applied: [1, 3] },
        latest: { applied: [1, 3] },
        strict: { applied: [1], held: ['3 gap'] },
      },
      {
        when: 'a gap that closes',
        arrives: [1, 3, 4, 2],
        any: { applied: [1, 3, 4, 2] },
        latest: { applied: [1, 3, 4], dropped: 1 },
        strict: { applied: [1, 2, 3, 4] },
      },
    ],
  },
  {
    what: 'repeat',
    says: alike('acknowledged'),
    scenarios: [
      {
        when: 'a repeat',
        arrives: [1, 2, { again: 1 }, { again: 2 }],
        any: { applied: [1, 2], repeats: 2 },
        latest: { applied: [1, 2], repeats: 2 },
        strict: { applied: [1, 2], repeats: 2 },
      },
      {
        when: 'a repeat of what is held',
        arrives: [1, 3, { again: 3 }],
        any: { applied: [1, 3], repeats: 1 },
        latest: { applied: [1, 3], repeats: 1 },
        strict: { applied: [1], held: ['3 gap'], repeats: 1 },
      },
    ],
  },
  {
    what: 'late arrival: a later one was applied',
    says: {
      any: 'applied',
      latest: 'dropped, counted as `DroppedOlder`',
      strict: 'held as `late`, never applied by itself',
    },
    scenarios: [
      {
        when: 'a late arrival',
        startingPoint: 'first-seen',
        arrives: [2, 1, 3],
        any: { applied: [2, 1, 3] },
        latest: { applied: [2, 3], dropped: 1 },
        strict: { applied: [2, 3], held: ['1 late'] },
      },
    ],
  },
  {
    what: 'redrive of a dead letter whose successors came meanwhile',
    says: { any: 'applied', latest: 'dropped', strict: 'applied, and the successors, which were held, after it' },
    scenarios: [
      {
        when: 'a redrive after its successors came',
        arrives: [2, 3, 1],
        any: { applied: [2, 3, 1] },
        latest: { applied: [2, 3], dropped: 1 },
        strict: { applied: [1, 2, 3] },
      },
    ],
  },
  {
    what: 'event that can not be read (malformed, denied, type or version unknown)',
    says: {
      any: 'held, others pass it',
      latest: 'held, others pass it',
      strict: 'held, later ones wait behind it as `blocked`; with `whenFailing: skip` they pass it in its turn',
    },
    scenarios: [
      {
        when: 'an event that can not be read',
        arrives: [1, { unreadable: 2 }, 3],
        any: { applied: [1, 3], held: ['2 unknown-version'] },
        latest: { applied: [1, 3], held: ['2 unknown-version'] },
        strict: { applied: [1], held: ['2 unknown-version', '3 blocked'] },
      },
      {
        when: 'an event that can not be read and comes late',
        startingPoint: 'first-seen',
        arrives: [2, { unreadable: 1 }, 3],
        any: { applied: [2, 3], held: ['1 unknown-version'] },
        latest: { applied: [2, 3], held: ['1 unknown-version'] },
        strict: { applied: [2, 3], held: ['1 unknown-version'] },
      },
    ],
    shown: {
      strict: [UNREADABLE, 'passes one that came early when its turn has come'],
    },
  },
  {
    what: 'event that can be read by a later deployment',
    says: {
      any: 'applied',
      latest: 'applied, or dropped where a newer one was applied',
      strict: 'applied, and those behind it; held as `late` where others have passed it',
    },
    scenarios: [
      {
        when: 'an event that can not be read yet',
        arrives: [1, { unreadable: 2 }],
        any: { applied: [1], held: ['2 unknown-version'] },
        latest: { applied: [1], held: ['2 unknown-version'] },
        strict: { applied: [1], held: ['2 unknown-version'] },
      },
    ],
    shown: {
      any: [UNREADABLE, 'is applied in mode any'],
      latest: [UNREADABLE, 'is applied in mode latest, or dropped where a newer one was applied'],
      strict: [UNREADABLE, 'is held as late, and not applied by itself'],
    },
  },
  {
    what: 'replay that the consumer did not accept',
    says: alike('acknowledged without effect'),
    scenarios: [
      {
        when: 'a replay that nobody accepted and that can not be read',
        arrives: [1, { unreadableReplayed: 2 }, { unreadableReplayed: 3 }, 2],
        any: { applied: [1, 2], ignored: 2 },
        latest: { applied: [1, 2], ignored: 2 },
        strict: { applied: [1, 2], ignored: 2 },
      },
      {
        when: 'a replay that nobody accepted',
        arrives: [1, 2, { replayed: 1 }, { replayed: 3 }, 3],
        any: { applied: [1, 2, 3], ignored: 2 },
        latest: { applied: [1, 2, 3], ignored: 2 },
        strict: { applied: [1, 2, 3], ignored: 2 },
      },
    ],
  },
  {
    what: 'new epoch',
    says: {
      any: 'applied',
      latest: 'applied; what is left of the lower one is dropped',
      strict: 'applied; what is left of the lower one is held as `late`',
    },
    scenarios: [
      {
        when: 'a new epoch',
        arrives: [1, EPOCH + 1n, 2, EPOCH + 2n],
        any: { applied: [1, EPOCH + 1n, 2, EPOCH + 2n] },
        latest: { applied: [1, EPOCH + 1n, EPOCH + 2n], dropped: 1 },
        strict: { applied: [1, EPOCH + 1n, EPOCH + 2n], held: ['2 late'] },
      },
    ],
  },
  {
    what: 'unrouted type: sequences have holes',
    says: { any: 'applied', latest: 'applied', strict: 'refused when the consumer is declared or built' },
    scenarios: [
      {
        when: 'a place without a message, of a type that is not routed here',
        arrives: [1, 3, 4],
        any: { applied: [1, 3, 4] },
        latest: { applied: [1, 3, 4] },
        strict: { applied: [1], held: ['3 gap', '4 gap'] },
      },
    ],
    shown: {
      strict: [
        'test/unit/inbox/event-consumer.test.ts',
        'case 59: refuses a strict consumer whose destination does not get every type of an aggregate that it handles',
      ],
    },
  },
  {
    what: 'skipped event (`outbox.skipped` in its place)',
    says: {
      any: 'ignored',
      latest: 'ignored',
      strict: 'the position moves over it, held followers are applied',
    },
    scenarios: [
      {
        when: 'a skipped event',
        arrives: [1, { skipped: 2 }, 3],
        any: { applied: [1, 3], ignored: 1 },
        latest: { applied: [1, 3], ignored: 1 },
        strict: { applied: [1, 3], ignored: 1 },
      },
      {
        when: 'a skipped event whose place others wait for',
        arrives: [1, 3, { skipped: 2 }],
        any: { applied: [1, 3], ignored: 1 },
        latest: { applied: [1, 3], ignored: 1 },
        strict: { applied: [1, 3], ignored: 1 },
      },
    ],
  },
  {
    what: 'start in the middle of a stream',
    says: {
      any: 'applied',
      latest: 'applied',
      strict: '`beginning`: held as `gap` until an operator accepts it; `first-seen`: applied',
    },
    scenarios: [
      {
        when: 'a start in the middle of a stream',
        arrives: [5, 6],
        any: { applied: [5, 6] },
        latest: { applied: [5, 6] },
        strict: { applied: [], held: ['5 gap', '6 gap'] },
      },
      {
        when: 'a start in the middle, from what is seen first',
        startingPoint: 'first-seen',
        arrives: [5, 6],
        any: { applied: [5, 6] },
        latest: { applied: [5, 6] },
        strict: { applied: [5, 6] },
      },
    ],
    shown: {
      strict: [
        'test/integration/inbox/operate.test.ts',
        'accepts a gap: the consumer goes on behind it, and what comes after all is late',
      ],
    },
  },
];

/** As it stands in docs/consumer.md. */
export const modeTable = (): string =>
  table(
    ['', ...MODES.map((mode) => `\`${mode}\``)],
    MODE_ROWS.map(({ what, says }) => [what, ...MODES.map((mode) => says[mode])]),
  );
