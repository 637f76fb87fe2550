import {
  DescribeEventBusCommand,
  type EventBridgeClient,
  PutEventsCommand,
  type PutEventsRequestEntry,
  type PutEventsResultEntry,
} from '@aws-sdk/client-eventbridge';
import { xrayTraceHeader } from '../../telemetry/index.ts';
import { awsCall } from './aws-call.ts';
import type { Message, Publisher, PublishResult } from './publisher.ts';

export interface EventBridgePublisherOptions {
  readonly client: EventBridgeClient;
  /** Name or ARN. */
  readonly bus: string;
  /** Milliseconds; default 5000. */
  readonly timeoutMs?: number;
}

/** Characters that `detail-type` may have. AWS names no limit for `source`. */
const DETAIL_TYPE_MOST = 128;

/**
 * EventBridge: at most 10 events and less than 1 MB a call, one result per event by its place, HTTP 200 even when some were refused. It
 * keeps no order and suppresses no repeats, so consumers behind it run in mode `any` or `latest`.
 *
 * `detail-type` is the event's type, `source` the catalogue's, `detail` the envelope. A rule whose target takes the input path
 * `$.detail` hands on the same message that a queue would get.
 */
export function eventBridgePublisher({ client, bus, timeoutMs = 5000 }: EventBridgePublisherOptions): Publisher {
  return {
    limits: { entries: 10, bytes: 999_999, timeoutMs },

    // As AWS counts it: detail, detail-type and source. We send no resources and no time (14 bytes); the trace header is not counted.
    sizeOf: ({ bytes, type, source }) => bytes + Buffer.byteLength(type) + Buffer.byteLength(source),

    // PutEvents to a bus that does not exist may answer with success, so only this finds a wrong name.
    async preflight() {
      await awsCall(timeoutMs, (abortSignal) =>
        client.send(new DescribeEventBusCommand({ Name: bus }), { abortSignal }),
      );
    },

    async publish(messages) {
      const refusals = messages.map(refusal);
      const sent = messages.filter((_, index) => refusals[index] === undefined);
      if (sent.length === 0) return refusals.filter((refused) => refused !== undefined);
      const { Entries = [] } = await awsCall(timeoutMs, (abortSignal) =>
        client.send(new PutEventsCommand({ Entries: sent.map((message) => entryOf(message, bus)) }), { abortSignal }),
      );
      // Answers carry no id: the nth belongs to the nth event that was sent.
      const answers = Entries.values();
      return refusals.map((refused) => refused ?? resultOf(answers.next().value));
    },

    close() {
      client.destroy();
    },
  };
}

/** What is known to be refused for ever is not sent. */
function refusal({ type }: Message): PublishResult | undefined {
  if (type.length <= DETAIL_TYPE_MOST) return undefined;
  return {
    ok: false,
    code: 'DetailTypeTooLong',
    reason: `the type has ${type.length} characters, EventBridge takes ${DETAIL_TYPE_MOST}`,
  };
}

function entryOf({ type, source, body, traceparent }: Message, bus: string): PutEventsRequestEntry {
  const traceHeader = traceparent === undefined ? undefined : xrayTraceHeader(traceparent);
  return {
    EventBusName: bus,
    Source: source,
    DetailType: type,
    Detail: body,
    ...(traceHeader !== undefined && { TraceHeader: traceHeader }),
  };
}

function resultOf(entry: PutEventsResultEntry | undefined): PublishResult {
  if (entry?.ErrorCode !== undefined) return { ok: false, code: entry.ErrorCode, reason: entry.ErrorMessage ?? '' };
  if (entry?.EventId !== undefined) return { ok: true, messageId: entry.EventId };
  return { ok: false, code: 'NoAnswer', reason: 'the answer does not mention this event' };
}
