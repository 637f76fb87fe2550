import { createHash } from 'node:crypto';
import type { EventBridgeEvent, SQSRecord } from 'aws-lambda';

/**
 * The envelope in a message body. A rule whose target takes the input path `$.detail` hands on the envelope itself, as the relay
 * would have sent it; one without hands on EventBridge's event, whose `detail` is the envelope.
 */
export function envelopeOf(body: string): string {
  // CloudEvents knows no attribute of this name: it has a hyphen.
  if (!body.includes('"detail-type"')) return body;
  try {
    const event = JSON.parse(body) as unknown;
    return isEventBridgeEvent(event) && !Object.hasOwn(event, 'specversion') ? JSON.stringify(event.detail) : body;
  } catch {
    return body;
  }
}

/** Whether a function was invoked with an event of EventBridge. */
export function isEventBridgeEvent(event: unknown): event is EventBridgeEvent<string, unknown> {
  return (
    typeof event === 'object' &&
    event !== null &&
    Object.hasOwn(event, 'detail-type') &&
    typeof (event as { detail?: unknown }).detail === 'object' &&
    typeof (event as { id?: unknown }).id === 'string'
  );
}

/**
 * An event of EventBridge as the one message of a standard queue. Lambda has parsed it already, so integers beyond 2^53 have lost
 * digits: who needs them all puts a queue between.
 */
export function recordOf(event: EventBridgeEvent<string, unknown>): SQSRecord {
  return {
    messageId: event.id,
    receiptHandle: '',
    body: JSON.stringify(event.detail),
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: '',
      SenderId: '',
      ApproximateFirstReceiveTimestamp: '',
    },
    messageAttributes: {},
    md5OfBody: '',
    eventSource: 'aws:events',
    eventSourceARN: 'events',
    awsRegion: event.region,
  };
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Under which id a message is kept that names no event: its own where that is a UUID, as those of SQS and EventBridge are. */
export function messageUuid(messageId: string): string {
  const lower = messageId.toLowerCase();
  if (UUID.test(lower)) return lower;
  const hex = createHash('sha256').update(messageId).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join('-');
}
