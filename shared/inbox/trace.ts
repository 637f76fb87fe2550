import type { SQSRecord } from 'aws-lambda';
import type { ReceivedEvent } from '../events/index.ts';
import {
  activeTraceparent,
  inSpan,
  linkLater,
  type LongSpan,
  startSpan,
  traceparentOfXray,
} from '../telemetry/index.ts';
import type { Failure } from './failure.ts';
import type { OutcomeReport } from './outcome-report.ts';

/** One invocation's batch: linked to the trace of every message, by the queue's own header at once, by the envelope when it was read. */
export function inBatchSpan<T>(consumer: string, records: readonly SQSRecord[], work: () => Promise<T>): Promise<T> {
  const attributes = { ...common(consumer, records[0]), 'messaging.batch.message_count': records.length };
  return inSpan(`process ${consumer}`, { kind: 'consumer', attributes, links: records.map(sentTrace) }, work);
}

/** What a span tells of a message; one that cannot be read has no event. */
interface Traced {
  readonly record?: SQSRecord;
  readonly event: ReceivedEvent | undefined;
}

/** The spans of an invocation's messages. */
export interface MessageSpans {
  /** Runs a part of the work for messages while their spans are open, as a part of the first one's. */
  run<T>(messages: readonly Traced[], work: () => Promise<T>): Promise<T>;
  /** The report, which also notes on the message's span what became of it, and ends the span. */
  noting(report: OutcomeReport): OutcomeReport;
  /** Ends what was not reported: it was rolled back, and its time was over or another try took its place. */
  end(): void;
}

/**
 * A message's span continues the trace that its event was appended in, so that a request and its effect are one trace, and is linked to the batch. It
 * begins with the first that is done for the message and ends with its outcome, which is after the commit: a transaction may hold several messages, and one
 * that failed among others is tried again alone.
 */
export function messageSpans(consumer: string): MessageSpans {
  const batch = activeTraceparent();
  const linkBatch = linkLater();
  const open = new Map<ReceivedEvent, LongSpan>();
  const spanOf = ({ record, event }: Traced): LongSpan => {
    const known = event === undefined ? undefined : open.get(event);
    if (known !== undefined) return known;
    const sent = record === undefined ? undefined : sentTrace(record);
    const traced = event?.traceparent;
    // The same span, or a queue's sender that traces by itself.
    const sentApart = traced !== undefined && sent !== undefined && !isSameSpan(traced, sent);
    const span = startSpan(`process ${event?.type ?? 'message'}`, {
      kind: 'consumer',
      attributes: { ...common(consumer, record), ...identity(record, event) },
      parent: traced ?? sent ?? 'none',
      links: sentApart ? [batch, sent] : [batch],
    });
    if (sent === undefined || sentApart) linkBatch(traced);
    if (event !== undefined) open.set(event, span);
    return span;
  };
  const note = (message: Traced, outcome: string, failure?: Failure): void => {
    const span = spanOf(message);
    span.set({ 'sealed_outbox.outcome': outcome });
    if (failure !== undefined) {
      span.set({ 'sealed_outbox.failure_code': failure.code });
      span.fail(failure.class);
    }
    span.end();
    if (message.event !== undefined) open.delete(message.event);
  };
  return {
    run: (messages, work) => {
      const [first] = messages.filter(({ event }) => event !== undefined).map(spanOf);
      return first === undefined ? work() : first.run(work);
    },
    noting: (report) => ({
      ...report,
      applied(event, applied) {
        note({ event }, applied.kind);
        report.applied(event, applied);
      },
      kept(record, event, failure, applied, attempts) {
        note({ record, event }, applied.kind, failure);
        report.kept(record, event, failure, applied, attempts);
      },
      drained(event, applied) {
        note({ event }, applied.kind);
        report.drained(event, applied);
      },
      stays(event, failure) {
        note({ event }, 'held', failure);
        report.stays(event, failure);
      },
      failed(record, event, failure, behind) {
        note({ record, event }, 'returned', failure);
        report.failed(record, event, failure, behind);
      },
    }),
    end() {
      for (const span of open.values()) {
        span.set({ 'sealed_outbox.outcome': 'undone' });
        span.end();
      }
    },
  };
}

function sentTrace({ attributes }: SQSRecord): string | undefined {
  return traceparentOfXray(attributes.AWSTraceHeader);
}

/** Flags do not count: what is not recorded here may be recorded there. */
function isSameSpan(one: string, other: string): boolean {
  return one.slice(0, -2) === other.slice(0, -2);
}

/** By `eventSource` of a record. */
const SYSTEMS: Readonly<Record<string, string>> = { 'aws:sqs': 'aws_sqs', 'aws:events': 'aws_eventbridge' };

function common(consumer: string, record: SQSRecord | undefined) {
  return {
    'messaging.system': SYSTEMS[record?.eventSource ?? 'aws:sqs'] ?? 'sealed_outbox',
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
    'messaging.consumer.group.name': consumer,
    ...(record !== undefined && { 'messaging.destination.name': record.eventSourceARN.split(':').at(-1) ?? '' }),
  };
}

function identity(record: SQSRecord | undefined, event: ReceivedEvent | undefined) {
  return {
    ...(record !== undefined && { 'messaging.message.id': record.messageId }),
    ...(event !== undefined && {
      'cloudevents.event_id': event.id,
      'cloudevents.event_source': event.source,
      'cloudevents.event_type': event.type,
      'sealed_outbox.aggregate.type': event.aggregateType,
      'sealed_outbox.aggregate.id': event.aggregateId,
      'sealed_outbox.sequence': event.sequence.toString(),
    }),
  };
}
