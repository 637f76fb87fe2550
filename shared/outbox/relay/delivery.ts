import type { EnvelopeRow } from '../../events/index.ts';

/** A delivery as a scan finds it: everything but the event. */
export interface Found {
  /** Its row's key: a 64-bit integer as text. */
  readonly position: string;
  readonly eventId: string;
  /** The aggregate, as `outbox.aggregate_key` has it. */
  readonly key: string;
  readonly partition: number;
  readonly sequence: bigint;
  /** Refusals that were charged to it so far. */
  readonly attempts: number;
  /** Raised by a redrive. */
  readonly run: number;
  /** Number of the replay that it belongs to; absent where it is live. */
  readonly replay?: number;
  /** Upper bound of the message's size. */
  readonly bytes: number;
  readonly state: 'pending' | 'parked' | 'blocked';
  /** Milliseconds until it may be sent; 0 or less: now. */
  readonly dueInMs: number;
}

/** What a relay has to send: one event to one destination. */
export interface Delivery extends Found {
  readonly event: EnvelopeRow;
}

/** A destination as the catalogue installed it. */
export interface InstalledDestination {
  readonly number: number;
  readonly name: string;
  readonly kind: string;
  readonly ordered: boolean;
  readonly groupId: 'aggregate-id' | 'aggregate-type-and-id';
  /** Whether the catalogue has it no more. */
  readonly retired: boolean;
}
