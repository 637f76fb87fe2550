import { buildEnvelope } from '../../events/index.ts';
import { messageGroupId } from '../publish/group-id.ts';
import { PublishError } from '../publish/publish-error.ts';
import type { Message, Publisher, PublishResult } from '../publish/publisher.ts';
import type { Delivery, InstalledDestination } from './delivery.ts';
import { failureClass } from './failure-class.ts';
import type { Packed } from './pack.ts';

/**
 * Makes one call, and one for each message when the call as a whole failed of something that may be the fault of a single message:
 * alone, each shows whose it is. `answered` hears of each message, those that passed first: they tell how to read the refusals beside them. A
 * message that `mayStart` no longer allows is left untried: `answered` gets null.
 */
export async function publishBatch(
  publisher: Publisher,
  entries: readonly Packed<Message>[],
  mayStart: (partition: number) => boolean,
  answered: (packed: Packed<Message>, result: PublishResult | null) => void,
): Promise<void> {
  let results: readonly PublishResult[];
  try {
    results = await publisher.publish(entries.map((packed) => packed.message));
  } catch (error) {
    const { code, message } = asPublishError(error);
    if (entries.length > 1 && failureClass(code) !== 'outage') {
      for (const packed of entries) {
        if (mayStart(packed.delivery.partition)) await publishBatch(publisher, [packed], mayStart, answered);
        else answered(packed, null);
      }
      return;
    }
    results = entries.map(() => ({ ok: false, code, reason: message }));
  }
  for (const passed of [true, false]) {
    for (const [index, packed] of entries.entries()) {
      const result = results[index] ?? { ok: false, code: 'NoAnswer', reason: 'the publisher gave no result' };
      if (result.ok === passed) answered(packed, result);
    }
  }
}

function asPublishError(error: unknown): { code: string; message: string } {
  if (error instanceof PublishError) return error;
  return { code: 'PublisherBug', message: error instanceof Error ? error.name : 'unknown' };
}

/**
 * The message of a delivery. Its deduplication id is the event's, the same for every retry; neither a redrive nor a replay must be swallowed
 * by the first send.
 */
export function toMessage(delivery: Delivery, destination: InstalledDestination, publisher: Publisher): Message {
  const { event, run, replay } = delivery;
  const body = buildEnvelope(replay === undefined ? event : { ...event, replay });
  const replayed = replay === undefined ? event.id : `${event.id}-r${replay}`;
  const message: Message = {
    eventId: event.id,
    type: event.type,
    source: event.source,
    body,
    bytes: Buffer.byteLength(body),
    ...(event.metadata?.traceparent !== undefined && { traceparent: event.metadata.traceparent }),
    groupId: messageGroupId(destination.groupId, event.aggregateType, event.aggregateId),
    deduplicationId: run === 0 ? replayed : `${replayed}-${run}`,
  };
  return publisher.sizeOf === undefined ? message : { ...message, bytes: publisher.sizeOf(message) };
}
