import { type InstalledPlan, installedPlan, sealingPlan, type Sensitive } from '../sealing/index.ts';
import { type Catalogue, type GroupId, maxBytes, type WhenParked } from './catalogue.ts';
import type { EventSchema } from './schema.ts';

/** The JSON that SQL `outbox.install_catalogue(jsonb)` takes. */
export interface CatalogueRows {
  readonly source: string;
  readonly event_types: readonly {
    readonly type: string;
    readonly schema_version: number;
    readonly aggregate_type: string;
    readonly when_parked: WhenParked;
    readonly destinations: readonly string[];
    /** Where SQL refuses clear text; left out where nothing is marked. */
    readonly sealed_paths?: InstalledPlan;
  }[];
  readonly destinations: readonly {
    readonly name: string;
    readonly kind: string;
    readonly max_bytes: number;
    /** Without meaning where the destination keeps no order. */
    readonly group_id: GroupId;
  }[];
}

/** A catalogue as rows of `outbox.event_type`, `outbox.destination` and `outbox.route`. */
export function catalogueRows(catalogue: Catalogue): CatalogueRows {
  return {
    source: catalogue.source,
    event_types: Object.entries(catalogue.events).flatMap(([type, event]) =>
      Object.entries(event.versions).map(([version, schema]) => ({
        type,
        schema_version: Number(version),
        aggregate_type: event.aggregate,
        when_parked: event.whenParked,
        destinations: event.destinations,
        ...sealedPaths(schema, event.sensitive),
      })),
    ),
    destinations: Object.entries(catalogue.destinations).map(([name, destination]) => ({
      name,
      kind: destination.kind,
      max_bytes: maxBytes(destination),
      group_id: destination.kind === 'sqs-fifo' ? destination.groupId : 'aggregate-id',
    })),
  };
}

function sealedPaths(schema: EventSchema, sensitive: Sensitive | undefined): { sealed_paths?: InstalledPlan } {
  const plan = sealingPlan(schema, sensitive);
  return plan === null ? {} : { sealed_paths: installedPlan(plan) };
}
