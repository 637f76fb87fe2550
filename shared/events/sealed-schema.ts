import { type Sensitive, type SealingPlan, sealingPlan, wireSchema } from '../sealing/index.ts';
import type { EventSchema } from './schema.ts';

/** How data of a schema version is sealed. */
export interface SealedSchema {
  readonly plan: SealingPlan;
  /** Schema of what is stored and sent: sealed at marked places. */
  readonly wire: object;
}

const known = new WeakMap<
  EventSchema,
  { readonly declared: Sensitive | undefined; readonly sealed: SealedSchema | null }
>();

/**
 * Null where the schema marks nothing.
 *
 * Worked out once for a schema that nobody can change any more: at a cold start a catalogue is checked, compared with its validators and compiled, and
 * each needs the plans.
 *
 * @param declared class and person of marks that do not name their own
 * @throws SealingSchemaError for marks that contradict each other or their schema
 */
export function sealedSchema(schema: EventSchema, declared: Sensitive | undefined): SealedSchema | null {
  const before = known.get(schema);
  if (before !== undefined && before.declared === declared) return before.sealed;
  const plan = sealingPlan(schema, declared);
  const sealed = plan && { plan, wire: wireSchema(plan) };
  if (isFixed(schema) && isFixed(declared)) known.set(schema, { declared, sealed });
  return sealed;
}

/** Frozen with all that is in it. */
function isFixed(value: unknown): boolean {
  return Object.isFrozen(value) && (typeof value !== 'object' || Object.values(value ?? {}).every(isFixed));
}
