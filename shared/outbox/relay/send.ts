import { buildEnvelope } from '../../events/index.ts';
import type { Log } from '../../telemetry/index.ts';
import { messageGroupId } from '../publish/group-id.ts';
import { PublishError } from '../publish/publish-error.ts';
import type { Message, Publisher, PublishResult } from '../publish/publisher.ts';
import { abandon, advance, type Chains, chainsOf, depart, isEmpty } from './chains.ts';
import { type Circuit, failed, passed } from './circuit.ts';
import type { Clock } from './clock.ts';
import type { Delivery, InstalledDestination } from './delivery.ts';
import { failureClass } from './failure-class.ts';
import { type Outcome, outcomeOf, type RetryPolicy } from './outcome.ts';
import { packBatch, type Packed } from './pack.ts';
import type { Settled } from './settle.ts';

/** A message that passed this recently proves that its destination works. Milliseconds. */
const LATELY_MS = 60_000;

export interface Sending {
  readonly destination: InstalledDestination;
  readonly publisher: Publisher;
  readonly circuit: Circuit;
  readonly clock: Clock;
  readonly random: () => number;
  readonly policy: RetryPolicy;
  readonly log: Log;
  /** Calls in flight at most. */
  readonly concurrency: number;
  /** Whether a delivery of this partition may still be sent: the lease stands for longer than one call takes. */
  mayStart(partition: number): boolean;
  /** Writes outcomes. Called between calls, never during a database transaction of somebody else. */
  settle(entries: readonly Settled[]): Promise<void>;
}

/** Not tried: the lease would not have outlasted the call. Stays as it is for whoever fetches it next. */
const LEFT = { kind: 'left' } as const;

type Finish = (packed: Packed<Message>, outcome: Outcome | typeof LEFT) => void;

/** Outcomes are written as soon as there are this many, or after this long. */
const SETTLE_ENTRIES = 200;
const SETTLE_MS = 250;

/**
 * Sends a window: heads of chains in batches, several calls at a time, each chain's next as soon as its head is acknowledged.
 * Returns when everything of it is published, charged, or left for the next fetch.
 */
export async function sendWindow(window: readonly Delivery[], sending: Sending): Promise<void> {
  const chains = chainsOf(window, sending.destination.ordered);
  const calls = new Set<Promise<void>>();
  let done: Settled[] = [];
  let settledAt = sending.clock.monotonic();
  let stopped = false;

  const finish: Finish = (packed, outcome) => {
    if (outcome.kind === 'published') {
      passed(sending.circuit, sending.clock.monotonic());
      advance(chains, packed.key);
    } else {
      abandon(chains, packed.key);
    }
    if (outcome.kind === 'left') return;
    if (outcome.kind === 'outage') {
      stopped = true;
      failed(sending.circuit, sending.clock.monotonic(), sending.random);
      sending.log.warn('the destination is out of order; nothing is charged, sending resumes by itself', {
        destination: sending.destination.name,
        code: outcome.code,
        retryInMs: Math.round(sending.circuit.openUntil - sending.clock.monotonic()),
      });
      return;
    }
    if (outcome.kind === 'parked') {
      sending.log.error('parked: a person has to look at this event; the later ones of its aggregate wait', {
        destination: sending.destination.name,
        eventId: packed.delivery.event.id,
        type: packed.delivery.event.type,
        error: outcome.error,
      });
    }
    done.push({ delivery: packed.delivery, outcome });
  };

  try {
    while (!isEmpty(chains)) {
      // oxlint-disable-next-line no-unmodified-loop-condition -- `finish` sets it while calls are answered
      while (!stopped && calls.size < sending.concurrency) {
        const entries = nextBatch(chains, sending, finish);
        if (entries.length === 0) break;
        const call = publishBatch(entries, sending, finish).finally(() => calls.delete(call));
        calls.add(call);
      }
      if (calls.size === 0) break;
      const settleInMs = settledAt + SETTLE_MS - sending.clock.monotonic();
      await anyOf(calls, done.length > 0 ? settleInMs : Number.POSITIVE_INFINITY, sending.clock);
      if (done.length >= SETTLE_ENTRIES || (done.length > 0 && sending.clock.monotonic() - settledAt >= SETTLE_MS)) {
        const entries = done;
        done = [];
        await sending.settle(entries);
        settledAt = sending.clock.monotonic();
      }
    }
    await sending.settle(done);
  } finally {
    // Also when a settle failed: nothing is under way any more once the partitions are given back.
    await Promise.allSettled(calls);
  }
}

/** Waits for one of the calls, and no longer than `ms`: one slow call must not keep what the others achieved from being written. */
async function anyOf(calls: ReadonlySet<Promise<void>>, ms: number, clock: Clock): Promise<void> {
  if (ms === Number.POSITIVE_INFINITY) return Promise.race(calls);
  const answered = new AbortController();
  await Promise.race([...calls, clock.sleep(Math.max(0, ms), answered.signal)]);
  answered.abort();
}

/** Takes the next call's heads; those that may no longer be sent, and those that can never be, leave the chains here. */
function nextBatch(chains: Chains, sending: Sending, finish: Finish): readonly Packed<Message>[] {
  for (const [key, chain] of chains.waiting) {
    const partition = chain[0]?.partition;
    if (chains.ready.has(key) && partition !== undefined && !sending.mayStart(partition)) abandon(chains, key);
  }
  const { entries, oversized } = packBatch(chains, sending.publisher.limits, (delivery) =>
    sized(toMessage(delivery, sending.destination), sending.publisher),
  );
  for (const packed of oversized) {
    finish(packed, {
      kind: 'parked',
      error: `EventTooLarge: ${packed.message.bytes} bytes, the destination takes ${sending.publisher.limits.bytes}`,
    });
  }
  depart(
    chains,
    entries.map((packed) => packed.key),
  );
  return entries;
}

async function publishBatch(entries: readonly Packed<Message>[], sending: Sending, finish: Finish): Promise<void> {
  let results: readonly PublishResult[];
  try {
    results = await sending.publisher.publish(entries.map((packed) => packed.message));
  } catch (error) {
    const { code, message } = asPublishError(error);
    if (entries.length > 1 && failureClass(code) !== 'outage') {
      // One message may make every call fail: alone, each shows whose fault it is.
      for (const packed of entries) {
        if (sending.mayStart(packed.delivery.partition)) await publishBatch([packed], sending, finish);
        else finish(packed, LEFT);
      }
      return;
    }
    results = entries.map(() => ({ ok: false, code, reason: message }));
  }
  // Those that passed first: they tell how to read the refusals beside them.
  const order = entries.map((_, index) => index).toSorted((a, b) => Number(results[b]?.ok) - Number(results[a]?.ok));
  for (const index of order) {
    const packed = entries[index];
    const result = results[index];
    if (packed === undefined || result === undefined) continue;
    const anotherPassedLately = sending.clock.monotonic() - sending.circuit.passedAt < LATELY_MS;
    const { policy, random } = sending;
    finish(packed, outcomeOf(result, packed.delivery, { anotherPassedLately, policy, random }));
  }
}

function asPublishError(error: unknown): { code: string; message: string } {
  if (error instanceof PublishError) return error;
  return { code: 'PublisherBug', message: error instanceof Error ? error.name : 'unknown' };
}

/** With the bytes that count at this destination: some count more than the body. */
function sized(message: Message, publisher: Publisher): Message {
  return publisher.sizeOf === undefined ? message : { ...message, bytes: publisher.sizeOf(message) };
}

function toMessage(delivery: Delivery, destination: InstalledDestination): Message {
  const { event, run } = delivery;
  const body = buildEnvelope(event);
  return {
    eventId: event.id,
    type: event.type,
    source: event.source,
    body,
    bytes: Buffer.byteLength(body),
    ...(event.metadata?.traceparent !== undefined && { traceparent: event.metadata.traceparent }),
    groupId: messageGroupId(destination.groupId, event.aggregateType, event.aggregateId),
    deduplicationId: run === 0 ? event.id : `${event.id}-${run}`,
  };
}
