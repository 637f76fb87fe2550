import { randomUUID } from 'node:crypto';
import type { Context, SQSEvent } from 'aws-lambda';
import { buildEnvelope, type CompiledCatalogue } from '../events/index.ts';
import { type AnyGivenEvent, receivedEvent } from './received-event.ts';

/**
 * What Lambda invokes a consumer with: a batch of a FIFO queue, each event in the envelope that the relay makes. Data with marks is given as it would be
 * stored, so write it with an outbox first where it must be sealed.
 *
 * @throws TestingError `EVENT_NOT_IN_CATALOGUE`, `EVENT_DATA_INVALID`
 */
export function sqsBatch(catalogue: CompiledCatalogue, events: readonly AnyGivenEvent[]): SQSEvent {
  return { Records: events.map((event) => record(catalogue, event)) };
}

function record(catalogue: CompiledCatalogue, given: AnyGivenEvent): SQSEvent['Records'][number] {
  const { data, time, traceparent, correlationid, causationid, ...event } = receivedEvent(catalogue, given);
  const metadata = Object.fromEntries(
    Object.entries({ traceparent, correlationid, causationid }).filter(([, value]) => value !== undefined),
  );
  return {
    messageId: randomUUID(),
    receiptHandle: 'test',
    body: buildEnvelope({ ...event, occurredAt: time, data: JSON.stringify(data), metadata }),
    attributes: {
      ApproximateReceiveCount: '1',
      ApproximateFirstReceiveTimestamp: '0',
      SentTimestamp: '0',
      SenderId: 'test',
      MessageGroupId: `${event.aggregateType}/${event.aggregateId}`,
    },
    messageAttributes: {},
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:eu-central-1:000000000000:test.fifo',
    awsRegion: 'eu-central-1',
  };
}

/**
 * Lambda's context, of which consumers use the time.
 *
 * @param seconds that are left, from now on
 */
export function lambdaContext(seconds = 30): Context {
  const end = Date.now() + seconds * 1000;
  return {
    awsRequestId: randomUUID(),
    functionName: 'test',
    getRemainingTimeInMillis: () => end - Date.now(),
  } as Context;
}
