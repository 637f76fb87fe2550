import type { SQSRecord } from 'aws-lambda';
import type { ReceivedEvent } from '../events/index.ts';
import { activeTraceparent, inSpan, type OpenSpan, traceparentOfXray } from '../telemetry/index.ts';
import type { OutcomeReport } from './outcome-report.ts';

/** One invocation's batch: linked to the trace of every message, as far as the queue's own header tells it without reading the bodies. */
export function inBatchSpan<T>(consumer: string, records: readonly SQSRecord[], work: () => Promise<T>): Promise<T> {
  const attributes = { ...common(consumer, records[0]), 'messaging.batch.message_count': records.length };
  return inSpan(`process ${consumer}`, { kind: 'consumer', attributes, links: records.map(sentTrace) }, work);
}

/**
 * One message: continues the trace that its event was appended in, so that a request and its effect are one trace, and is linked to the batch.
 */
export function inMessageSpan<T>(
  consumer: string,
  record: SQSRecord,
  event: ReceivedEvent | undefined,
  work: (span: OpenSpan) => Promise<T>,
): Promise<T> {
  const attributes = {
    ...common(consumer, record),
    'messaging.message.id': record.messageId,
    ...(event !== undefined && {
      'cloudevents.event_id': event.id,
      'cloudevents.event_source': event.source,
      'cloudevents.event_type': event.type,
      'sealed_outbox.aggregate.type': event.aggregateType,
      'sealed_outbox.aggregate.id': event.aggregateId,
      'sealed_outbox.sequence': event.sequence.toString(),
    }),
  };
  const batch = activeTraceparent();
  const parent = event?.traceparent ?? sentTrace(record);
  return inSpan(
    `process ${event?.type ?? 'message'}`,
    { kind: 'consumer', attributes, links: [batch], parent: parent ?? 'none' },
    work,
  );
}

/** The report, which also notes on the message's span what became of it. */
export function notedOn(span: OpenSpan, report: OutcomeReport): OutcomeReport {
  return {
    ...report,
    applied(event, applied) {
      span.set({ 'sealed_outbox.outcome': applied.kind });
      report.applied(event, applied);
    },
    failed(record, event, failure, behind) {
      span.set({ 'sealed_outbox.outcome': 'returned', 'sealed_outbox.failure_code': failure.code });
      span.fail(failure.class);
      report.failed(record, event, failure, behind);
    },
  };
}

function sentTrace({ attributes }: SQSRecord): string | undefined {
  return traceparentOfXray(attributes.AWSTraceHeader);
}

function common(consumer: string, record: SQSRecord | undefined) {
  return {
    'messaging.system': 'aws_sqs',
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
    'messaging.consumer.group.name': consumer,
    ...(record !== undefined && { 'messaging.destination.name': record.eventSourceARN.split(':').at(-1) ?? '' }),
  };
}
