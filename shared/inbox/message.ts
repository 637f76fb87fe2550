import type { SQSRecord } from 'aws-lambda';
import type { ReceivedEvent } from '../events/index.ts';
import type { OpeningKeys } from '../sealing/index.ts';
import { envelopeOf } from './event-bridge.ts';
import type { Failure } from './failure.ts';
import type { AnySteps } from './handlers.ts';
import type { HeldReason } from './hold.ts';
import { newestEvent } from './newest-event.ts';
import { loadKeys, openEvent } from './open-event.ts';
import { type ReadEvent, readEvent } from './read-event.ts';
import type { ConsumerRules } from './work.ts';

/** The message of an event that takes its place in the order of its aggregate. */
export interface EventMessage {
  readonly kind: 'event';
  readonly record: SQSRecord;
  /** In its newest version, where a handler will see it. */
  readonly event: ReceivedEvent;
  /** None: the consumer moves over it. */
  readonly steps: AnySteps | undefined;
  /** What to call it when it was moved over. */
  readonly passedAs: 'ignored' | 'too-old';
}

/** A message that must be kept, because it can not be applied as it is. */
export interface UnreadableMessage {
  readonly kind: 'unreadable';
  readonly record: SQSRecord;
  /** There when its envelope is sound. */
  readonly event: ReceivedEvent | undefined;
  readonly reason: HeldReason;
  readonly failure: Failure;
}

/** Sealed, and its keys cannot be loaded now: it goes back. */
export interface UnopenedMessage {
  readonly kind: 'unopened';
  readonly record: SQSRecord;
  readonly event: ReceivedEvent;
  readonly failure: Failure;
}

/** What a message asks of the consumer. */
export type Message =
  | EventMessage
  | UnreadableMessage
  | UnopenedMessage
  /** Nobody needs to know of it. */
  | {
      readonly kind: 'ignored';
      readonly record: SQSRecord;
      readonly event: ReceivedEvent;
      readonly passedAs: 'ignored' | 'too-old';
    };

const REASONS = {
  malformed: 'malformed',
  'unknown-type': 'unknown-type',
  'unknown-version': 'unknown-version',
  denied: 'denied',
} as const satisfies Partial<Record<Failure['class'], HeldReason>>;

/** Reads messages by the rules of a consumer, with one read of the vault for all. Whatever the bodies are, it does not fail for them. */
export async function readMessages(rules: ConsumerRules, records: readonly SQSRecord[]): Promise<Message[]> {
  const reads = records.map((record) => readRecord(rules, record));
  const keys = await loadKeys(rules, reads);
  return records.map((record, index) => messageOf(rules, record, reads[index] as ReadEvent, keys));
}

export function readRecord({ catalogue }: ConsumerRules, record: SQSRecord): ReadEvent {
  return readEvent(catalogue, envelopeOf(record.body));
}

/** What a message that was read asks for, with the keys that were loaded. Never throws. */
export function messageOf(rules: ConsumerRules, record: SQSRecord, read: ReadEvent, keys: OpeningKeys): Message {
  if (!read.ok) {
    if (read.failure.class === 'unknown-type' && rules.unknownTypes === 'ignore' && read.event !== undefined) {
      return passed(rules, record, read.event, 'ignored');
    }
    return unreadable(record, read.event, read.failure);
  }
  const steps = rules.stepsOf(read.event.type);
  // Without a handler nobody looks at the data: what cannot be upcast is no reason to keep it.
  if (steps === undefined) return passed(rules, record, read.event, 'ignored');
  const opened = openEvent(rules, read.event, keys);
  if (!opened.ok) {
    const { failure } = opened;
    return failure.class === 'retry'
      ? { kind: 'unopened', record, event: read.event, failure }
      : unreadable(record, read.event, failure);
  }
  const newest = newestEvent(rules.catalogue, opened.event, opened.whole);
  if (newest.ok) return { kind: 'event', record, event: newest.event, steps, passedAs: 'ignored' };
  if (newest.failure === 'ignore') return passed(rules, record, read.event, 'too-old');
  return unreadable(record, read.event, newest.failure);
}

/** A strict consumer moves over what it has no handler for, because the aggregate's next event follows that; others need not write about it. */
function passed(
  { consumer, catalogue }: ConsumerRules,
  record: SQSRecord,
  event: ReceivedEvent,
  passedAs: 'ignored' | 'too-old',
): Message {
  if (consumer.mode !== 'strict' || event.source !== catalogue.source) {
    return { kind: 'ignored', record, event, passedAs };
  }
  return { kind: 'event', record, event, steps: undefined, passedAs };
}

function unreadable(record: SQSRecord, event: ReceivedEvent | undefined, failure: Failure): UnreadableMessage {
  const reason = (REASONS as Partial<Record<Failure['class'], HeldReason>>)[failure.class] ?? 'malformed';
  return { kind: 'unreadable', record, event, reason, failure };
}
