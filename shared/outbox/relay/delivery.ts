import type { EnvelopeRow } from '../../events/index.ts';

/** What a relay has to send: one event to one destination. */
export interface Delivery {
  /** Its row's key: a 64-bit integer as text. */
  readonly position: string;
  readonly destination: string;
  readonly partition: number;
  /** The aggregate, as `outbox.aggregate_key` has it. */
  readonly aggregateKey: string;
  readonly sequence: bigint;
  /** Refusals that were charged to it so far. */
  readonly attempts: number;
  /** Raised by a redrive. */
  readonly run: number;
  readonly event: EnvelopeRow;
}

/** A destination as the catalogue installed it. */
export interface InstalledDestination {
  readonly number: number;
  readonly name: string;
  readonly kind: string;
  readonly ordered: boolean;
  readonly groupId: 'aggregate-id' | 'aggregate-type-and-id';
}
