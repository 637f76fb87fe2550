import { table } from './document-tables.ts';
import type { Shown } from './shown.ts';

/** What becomes of a message of one kind, as docs/consumer.md says it, with the tests that show it. */
export interface OutcomeRow {
  /** A class of failures; none for what is no failure. */
  readonly class?: string;
  readonly what: string;
  readonly outcome: string;
  readonly metric: string;
  readonly code?: string;
  readonly shown: readonly Shown[];
}

const inbox = (file: string, words: string): Shown => [`test/integration/inbox/${file}.test.ts`, words];
const unit = (file: string, words: string): Shown => [`test/unit/inbox/${file}.test.ts`, words];
const FAILING = inbox('held', 'goes back to the queue until its last attempt, then it is held and those behind it');
const TOO_OLD = 'tells a version without upcasters, an upcaster that throws and one with a wrong answer apart';

export const OUTCOME_ROWS: readonly OutcomeRow[] = [
  {
    what: 'handler resolved',
    outcome: 'committed, acknowledged',
    metric: '`Effects`, `EffectAge`',
    shown: [
      inbox('together', 'share one transaction'),
      inbox('once', 'is measured from the time of the event to the effect'),
    ],
  },
  {
    what: 'processed before, or held already',
    outcome: 'acknowledged',
    metric: '`Repeats`',
    shown: [
      inbox('once', 'when the same message comes again, in a later batch and twice in one'),
      ['test/support/mode-table.ts', 'a repeat of what is held'],
    ],
  },
  {
    what: 'known type without a handler',
    outcome: 'acknowledged',
    metric: '`Ignored`',
    shown: [
      inbox('batch', 'writes nothing about a type without a handler in mode any'),
      inbox('order', 'moves over a type without a handler and over a tombstone, once'),
    ],
  },
  {
    what: 'of a replay that the consumer takes no part in',
    outcome: 'acknowledged',
    metric: '`Ignored`',
    shown: [
      inbox('replay', 'acknowledges without effect what belongs to another run, before, during and after its own'),
    ],
  },
  {
    what: '`latest`: a newer one was applied',
    outcome: 'acknowledged',
    metric: '`DroppedOlder`',
    shown: [inbox('modes', 'like case 60: waits for the transaction that has the higher one, then drops the lower')],
  },
  {
    what: '`gap`, `blocked`, `late`, `too-old`, `replay` (see above)',
    outcome: 'held, acknowledged',
    metric: '`Held` by `Reason`',
    shown: [
      inbox('order', 'holds what comes early, says what it expected, and applies all in order when the gap closes'),
      FAILING,
      inbox('order', 'case 35: neither applies nor loses an event that comes after its successors'),
      inbox('held', 'by age is never applied by itself, not even when it is drained'),
      inbox('replay', 'like case 62: holds live events of the aggregates until the run ends'),
    ],
  },
  {
    class: 'retry',
    what: 'database away, connection lost, deadlock, lock or statement time-out, also where the handler passes it on',
    outcome: 'returned, never counted',
    metric: '`Returned` by `Class`',
    code: 'SQLSTATE, `ECONNREFUSED`, `CONNECTION_LOST`, …',
    shown: [
      inbox('once', 'when the connection is cut while the handler waits: the database failed, not the handler'),
      inbox('held', 'is not charged for what the database does'),
      unit('failure', 'takes %s for a failure of the database, also when the handler passes it on or wraps it'),
    ],
  },
  {
    class: 'time',
    what: "the invocation's time is up",
    outcome: 'rolled back, returned, never counted',
    metric: '`Returned`',
    code: '`OUT_OF_TIME`',
    shown: [inbox('time', 'goes back to the queue alone, gives up its connection, and the retry processes it')],
  },
  {
    class: 'handler',
    what: 'the handler or its `before` step rejected',
    outcome: 'counted, returned; at the last attempt held as `failing`',
    metric: '`Returned`, `Held`',
    code: "the error's `code`, else `HANDLER_FAILED`",
    shown: [
      FAILING,
      inbox(
        'unknown-and-before',
        'that fails is counted like the handler; one that finds nobody at the other end is not',
      ),
    ],
  },
  {
    class: 'handler',
    what: "it swallowed a statement's error, or ended the transaction",
    outcome: 'as above',
    metric: 'as above',
    code: '`TRANSACTION_ABORTED`, `TRANSACTION_ENDED`',
    shown: [
      inbox('together', 'like case 33: do not suffer from one whose handler %s'),
      inbox('once', 'never lost when the handler swallows the error of a statement'),
    ],
  },
  {
    class: 'malformed',
    what: 'no envelope of ours',
    outcome: 'held',
    metric: '`Held`',
    code: '`NOT_AN_ENVELOPE`',
    shown: [inbox('batch', 'like case 36: keeps a message that is no envelope, under the id of the message')],
  },
  {
    class: 'malformed',
    what: 'an envelope that breaks its rules, data that breaks its schema, a value that PostgreSQL can not hold',
    outcome: 'held',
    metric: '`Held`',
    code: '`ENVELOPE_BROKEN`, `EVENT_DATA_INVALID`, SQLSTATE',
    shown: ['a broken envelope', 'data that breaks its schema', 'a time that PostgreSQL cannot hold'].map((what) =>
      inbox('batch', what),
    ),
  },
  {
    class: 'malformed',
    what: 'an upcaster threw, or its answer breaks the next schema',
    outcome: 'held',
    metric: '`Held`',
    code: '`UPCASTER_FAILED`, `UPCASTER_RESULT_INVALID`',
    shown: [unit('newest-event', TOO_OLD)],
  },
  {
    class: 'unknown-type',
    what: 'type, or source, that the catalogue does not hold',
    outcome: "held; with `unknownTypes: 'ignore'` acknowledged",
    metric: '`Held`, `Ignored`',
    code: '`EVENT_TYPE_UNKNOWN`',
    shown: [
      inbox('batch', 'a known type of another source'),
      inbox('unknown-and-before', 'is treated as declared: %s'),
    ],
  },
  {
    class: 'unknown-version',
    what: 'version that the catalogue does not hold',
    outcome: 'held',
    metric: '`Held`',
    code: '`EVENT_VERSION_UNKNOWN`',
    shown: [
      inbox('batch', 'an unknown version'),
      inbox('unknown-and-before', 'like case 36: is applied by itself, in order, when a deployment knows it'),
    ],
  },
  {
    class: 'unknown-version',
    what: 'version older than the oldest upcaster',
    outcome: "held; where the type says `older: 'ignore'`, acknowledged",
    metric: '`Held`, `Ignored`',
    code: '`EVENT_VERSION_TOO_OLD`',
    shown: [
      unit('newest-event', 'holds it by default, as it came'),
      unit('newest-event', 'acknowledges it without effect where the type says so, and counts and logs it'),
    ],
  },
  {
    class: 'retry',
    what: 'keys of what is sealed in it cannot be loaded now ([sensitive-data.md](sensitive-data.md))',
    outcome: 'returned, never counted',
    metric: '`Returned`',
    code: '`SEALING_THROTTLED`, `SEALING_UNAVAILABLE`, `SEALING_KEY_DISABLED`, `KEYS_NOT_PREPARED`',
    shown: [
      inbox('sealed', 'goes back with what is behind it, uncounted, while KMS says %s'),
      unit('failure', 'has an event tried again whose keys were not loaded'),
    ],
  },
  {
    class: 'denied',
    what: 'the consumer opens a class that its login or IAM role may not use',
    outcome: 'held',
    metric: '`Held`',
    code: '`SEALING_DENIED`',
    shown: [
      inbox('sealed', 'is held as denied when its login may not have the class that it opens; others are applied'),
      inbox('sealed', 'is held as denied when KMS denies'),
    ],
  },
  {
    class: 'malformed',
    what: 'what is sealed was changed or moved, has no key, or opens to something that breaks the schema',
    outcome: 'held',
    metric: '`Held`',
    code: '`SEALING_TAMPERED`, `SEALING_MALFORMED`, `SEALING_KEY_UNKNOWN`, `SEALING_LIMIT`, `EVENT_DATA_INVALID`',
    shown: [
      inbox('sealed', 'case 36: is held when its key is unknown, it was changed, or it is no sealed value'),
      inbox('sealed', 'is held when what opens breaks the schema, in words that hold nothing of it'),
    ],
  },
  {
    what: 'behind a returned message of its group',
    outcome: 'returned, not tried',
    metric: '`Returned`, class `behind`',
    shown: [
      inbox('batch', 'case 33: returns a failed message and the rest of its group, and processes all other groups'),
    ],
  },
  {
    what: 'taken out of `inbox.held_event`',
    outcome: 'as one of the above',
    metric: '`Drained` besides',
    shown: [
      inbox('order', 'holds what comes early, says what it expected, and applies all in order when the gap closes'),
    ],
  },
];

/** As it stands in docs/consumer.md. */
export const outcomeTable = (): string =>
  table(
    ['class', 'what happened', 'outcome', 'metric', 'code in the log'],
    OUTCOME_ROWS.map((row) => [
      row.class === undefined ? '–' : `\`${row.class}\``,
      row.what,
      row.outcome,
      row.metric,
      row.code ?? '',
    ]),
  );
