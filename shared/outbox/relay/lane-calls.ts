import type { Message, PublishResult } from '../publish/publisher.ts';
import { acknowledge, comeBack, depart, park, postpone, surrender } from './backlog.ts';
import { failed, isProbing, passed, waitFor } from './circuit.ts';
import { fail, type Lane, settleLater } from './lane-state.ts';
import { markBusy, markIdle } from './lease.ts';
import { outcomeOf } from './outcome.ts';
import { room, spend } from './pace.ts';
import { packBatch, type Packed } from './pack.ts';
import { publishBatch, toMessage } from './publish-batch.ts';
import { reportOutage } from './remedy.ts';
import { PARTITIONS } from './share.ts';

/** A message that passed this recently proves that its destination works. Milliseconds. */
const LATELY_MS = 60_000;

/**
 * A quarter of the window's bytes is in flight at most, or one call: of a message in flight there are three copies more, its envelope, the
 * request and what is written of it. At 1 MB a call, 32 calls took 250 MB and so much time to prepare that the first ran into its time-out.
 */
const FLYING_SHARE = 1 / 4;

/** Starts as many calls as there are heads, room and an open way; one with one message while the destination is being probed. */
export function startCalls(lane: Lane): void {
  const { backlog, publisher, circuit, clock } = lane;
  while (waitFor(circuit, clock.monotonic()) === 0) {
    const probing = isProbing(circuit);
    if (lane.calls.size >= (probing ? 1 : lane.concurrency)) return;
    if (lane.flyingBytes >= lane.window.bytes * FLYING_SHARE) return;
    const most = mayLeave(lane);
    if (most < 1) return;
    const entriesOfCall = probing ? 1 : Math.min(publisher.limits.entries, most);
    const limits = { ...publisher.limits, entries: entriesOfCall };
    const { tokens } = lane;
    const mayStart = (partition: number): boolean =>
      tokens.has(partition) && lane.lease.held.get(partition) === tokens.get(partition) && lane.mayStart();
    const { entries, oversized } = packBatch(
      backlog,
      limits,
      (delivery) => toMessage(delivery, lane.destination, publisher),
      mayStart,
    );
    for (const packed of oversized) {
      depart(backlog, [packed.key]);
      const reason = `${packed.message.bytes} bytes, the destination takes ${limits.bytes}`;
      answered(lane, packed, { ok: false, code: 'EventTooLarge', reason }, tokens);
    }
    if (entries.length === 0) return;
    if (lane.pace !== undefined) spend(lane.pace, entries.length);
    depart(
      backlog,
      entries.map((packed) => packed.key),
    );
    markBusy(
      lane.lease,
      entries.map((packed) => packed.delivery.partition),
    );
    const bytes = entries.reduce((sum, { message }) => sum + message.bytes, 0);
    lane.flyingBytes += bytes;
    const call = publishBatch(publisher, entries, mayStart, (packed, result) => {
      answered(lane, packed, result, tokens);
      markIdle(lane.lease, [packed.delivery.partition]);
    })
      .catch((error: unknown) => {
        fail(lane, error);
      })
      .finally(() => {
        lane.calls.delete(call);
        lane.flyingBytes -= bytes;
        lane.bell.ring();
      });
    lane.calls.add(call);
  }
}

/** Messages that the pace of the lane lets go now; a relay's part of it is its part of the partitions. */
function mayLeave({ pace, clock, tokens }: Lane): number {
  return pace === undefined ? Number.POSITIVE_INFINITY : room(pace, clock.monotonic(), tokens.size / PARTITIONS);
}

/** What one message's answer means for its chain, the destination and the database. */
function answered(
  lane: Lane,
  packed: Packed<Message>,
  result: PublishResult | null,
  tokens: ReadonlyMap<number, string>,
): void {
  const { backlog, circuit, clock, policy, random, log } = lane;
  const { key, delivery } = packed;
  if (result === null) {
    giveBack(lane, packed, tokens);
    return;
  }
  const now = clock.monotonic();
  const anotherPassedLately = now - circuit.passedAt < LATELY_MS;
  const outcome = outcomeOf(result, delivery, { anotherPassedLately, policy, random });
  switch (outcome.kind) {
    case 'published':
      passed(circuit, now);
      acknowledge(backlog, key);
      break;
    case 'retry':
      postpone(backlog, key, now + outcome.delayMs);
      break;
    case 'parked':
      park(backlog, key);
      log.error('parked: a person has to look at this event; the later ones of its aggregate wait', {
        destination: lane.destination.name,
        eventId: delivery.event.id,
        type: delivery.event.type,
        error: outcome.error,
      });
      break;
    case 'outage':
      giveBack(lane, packed, tokens);
      if (waitFor(circuit, now) === 0) {
        failed(circuit, now, random);
        reportOutage(log, lane.destination, 'send', {
          code: outcome.code,
          retryInMs: Math.round(waitFor(circuit, now)),
        });
      }
      return;
  }
  settleLater(lane, delivery, outcome, tokens);
}

/** Untried, or not its fault. What comes back of a lease that was lost meanwhile may be somebody else's: it is looked up again. */
function giveBack({ backlog, tokens }: Lane, { key, delivery }: Packed<Message>, sentUnder: Lane['tokens']): void {
  if (tokens.get(delivery.partition) === sentUnder.get(delivery.partition)) comeBack(backlog, key);
  else surrender(backlog, key);
}
