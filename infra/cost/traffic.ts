import type { Stage } from '../stages.ts';

/** What somebody wants a bill for. */
export interface Workload {
  readonly stage: 'dev' | 'prod';
  readonly eventsPerDay: number;
  /** Bytes of an event's data, as JSON. */
  readonly payloadBytes: number;
  /** To how many destinations of each kind an event goes, on average. */
  readonly fanOut: { readonly fifo: number; readonly bus: number; readonly queue: number };
  /** Average capacity units of one database instance, where you know better. */
  readonly acu?: number | undefined;
}

/** The sample's: each event to a FIFO queue and to the bus, one of three (an invoice that was issued) to a standard queue. */
export const SAMPLE_FAN_OUT = { fifo: 1, bus: 1, queue: 1 / 3 } as const;

export const HOURS = 730;
export const DAYS = 365 / 12;
/** SQS and EventBridge charge for every 64 KB begun. */
const CHUNK = 65_536;
/** The envelope around the data, with its attributes. An estimate for names and ids as the sample's. */
const ENVELOPE_BYTES = 700;
/** Lambda polls an idle queue with five calls of 20 s. */
const IDLE_RECEIVES = 5 * 3 * 60 * HOURS;
/** A call of the relay, and the way to the next batch of the poller, in seconds: what comes meanwhile shares the next call. */
const CALL_SECONDS = { relay: 0.02, poller: 0.05 } as const;

/** What a month brings, in calls and bytes. */
export interface Traffic {
  readonly events: number;
  /** Average events a second. */
  readonly rate: number;
  readonly deliveriesPerEvent: number;
  readonly messageBytes: number;
  /** Messages in a call of the relay, and in an invocation of a consumer: 1 to 10. */
  readonly perCall: number;
  readonly perInvocation: number;
  readonly fifoRequests: number;
  readonly standardRequests: number;
  readonly busEvents: number;
  readonly invocations: number;
}

export function trafficOf(
  { eventsPerDay, payloadBytes, fanOut }: Workload,
  { relayMode }: Pick<Stage, 'relayMode'>,
): Traffic {
  const events = eventsPerDay * DAYS;
  const rate = eventsPerDay / 86_400;
  const messageBytes = payloadBytes + ENVELOPE_BYTES;
  // A relay that drains finds what a minute has left; one that runs on sends as soon as there is anything.
  const perCall = relayMode === 'drain' ? batch(rate * 60) : batch(rate * CALL_SECONDS.relay);
  const perInvocation = relayMode === 'drain' ? perCall : batch(rate * CALL_SECONDS.poller);
  const chunks = (messages: number): number => Math.ceil((messages * messageBytes) / CHUNK) / messages;

  const taken = (messages: number): number =>
    messages === 0 ? 0 : Math.max(messages * chunks(perInvocation), IDLE_RECEIVES) + messages / perInvocation;
  const fifo = events * fanOut.fifo;
  const throughBus = events * fanOut.bus;
  const standard = events * fanOut.queue;
  return {
    events,
    rate,
    deliveriesPerEvent: fanOut.fifo + fanOut.bus + fanOut.queue,
    messageBytes,
    perCall,
    perInvocation,
    fifoRequests: fifo * chunks(perCall) + taken(fifo),
    // EventBridge hands each event to its queue in a call of its own.
    standardRequests: standard * chunks(perCall) + taken(standard) + throughBus * chunks(1) + taken(throughBus),
    busEvents: throughBus * chunks(1),
    invocations: (fifo + throughBus + standard) / perInvocation,
  };
}

function batch(messages: number): number {
  return Math.min(10, Math.max(1, messages));
}
