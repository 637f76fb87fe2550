import { createHash } from 'node:crypto';
import type { EventMetadata, ReceivedEvent } from '../events/index.ts';
import type { AnyEvent } from './append.ts';

/** What an event that was consumed hands on to those that it leads to. */
export type Cause = Pick<ReceivedEvent, 'id' | 'correlationid' | 'traceparent'>;

/** A longer one could not stand beside the other two in the 1,024 bytes that metadata has. */
const MAX_CORRELATION_BYTES = 512;

/** The event with the metadata of one that follows from `cause`. Pure. */
export function causedBy(cause: Cause, event: AnyEvent): AnyEvent {
  const metadata: EventMetadata = {
    ...(cause.traceparent === undefined ? {} : { traceparent: cause.traceparent }),
    correlationid: correlationOf(cause),
    causationid: cause.id,
  };
  return { ...event, metadata: { ...metadata, ...event.metadata } };
}

function correlationOf({ id, correlationid }: Cause): string {
  if (correlationid === undefined || correlationid === '') return id;
  // The same for every hop after it, so that the chain stays together; and it must not cost an event.
  return Buffer.byteLength(JSON.stringify(correlationid)) > MAX_CORRELATION_BYTES
    ? createHash('sha256').update(correlationid).digest('hex')
    : correlationid;
}
