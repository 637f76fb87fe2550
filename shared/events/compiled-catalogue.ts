import { createHash } from 'node:crypto';
import type { SealingPlan } from '../sealing/index.ts';
import { type Catalogue, newestVersion } from './catalogue.ts';
import { CatalogueError } from './catalogue-error.ts';
import type { EventSchema } from './schema.ts';
import { type SealedSchema, sealedSchema } from './sealed-schema.ts';
import type { Validate } from './violation.ts';

/** What the generator writes beside a catalogue. */
export interface GeneratedValidators {
  /** `schemasFingerprint` of what they were made from. */
  readonly fingerprint: string;
  /** By `<name>/<version>`, such as `invoice.issued/1`. */
  readonly validators: Readonly<Record<string, Validate>>;
}

/** What seals and checks one schema version with marks. */
export interface SealedVersion {
  readonly plan: SealingPlan;
  /** Of what is stored and sent: sealed at marked places. */
  readonly validate: Validate;
}

/** A catalogue whose schemas can be applied. */
export type CompiledCatalogue<C extends Catalogue = Catalogue> = C & {
  readonly validators: Readonly<Record<string, Validate>>;
  /** By validator key, versions whose schema marks something; others are not in it. */
  readonly sealed: ReadonlyMap<string, SealedVersion>;
};

/** Key of one schema version among the validators. */
export function validatorKey(type: string, version: number): string {
  return `${type}/${version}`;
}

/** Key of the wire schema of a version with marks. */
function wireKey(key: string): string {
  return `${key}/wire`;
}

/** All schemas of a catalogue by validator key, wire schemas included: what the generator compiles. */
export function catalogueSchemas(catalogue: Catalogue): Readonly<Record<string, object>> {
  return Object.fromEntries(
    versionsOf(catalogue).flatMap(({ key, schema, sealed }): [string, object][] =>
      sealed === null
        ? [[key, schema]]
        : [
            [key, schema],
            [wireKey(key), sealed.wire],
          ],
    ),
  );
}

interface Version {
  readonly key: string;
  readonly schema: EventSchema;
  readonly sealed: SealedSchema | null;
}

function versionsOf(catalogue: Catalogue): readonly Version[] {
  return Object.entries(catalogue.events).flatMap(([type, event]) =>
    Object.entries(event.versions).map(([version, schema]) => ({
      key: validatorKey(type, Number(version)),
      schema,
      sealed: sealedSchema(schema, event.sensitive),
    })),
  );
}

/** SHA-256 of schemas as they are written, in hexadecimal. */
export function schemasFingerprint(schemas: Readonly<Record<string, object>>): string {
  return createHash('sha256').update(JSON.stringify(schemas)).digest('hex');
}

/**
 * Joins a catalogue with the validators that `npm run generate` made from it.
 *
 * ```ts
 * import * as generated from './validators.generated.js';
 * export const catalogue = compiledCatalogue(definition, generated);
 * ```
 *
 * @throws CatalogueError (`CATALOGUE_STALE`) when they were made from other schemas: an event would be checked
 * against rules that are no longer the catalogue's.
 */
export function compiledCatalogue<const C extends Catalogue>(
  catalogue: C,
  generated: GeneratedValidators,
): CompiledCatalogue<C> {
  if (schemasFingerprint(catalogueSchemas(catalogue)) !== generated.fingerprint) {
    throw new CatalogueError(
      'CATALOGUE_STALE',
      `The generated validators of ${JSON.stringify(catalogue.source)} do not belong to its schemas: generate them again.`,
    );
  }
  const sealed = new Map<string, SealedVersion>();
  for (const { key, sealed: schema } of versionsOf(catalogue)) {
    const validate = generated.validators[wireKey(key)];
    if (schema !== null && validate !== undefined) sealed.set(key, { plan: schema.plan, validate });
  }
  return Object.freeze({ ...catalogue, validators: generated.validators, sealed });
}

/** The validator that writers of `type` meet, or null for a type that the catalogue does not know. */
export function writerValidator(
  catalogue: CompiledCatalogue,
  type: string,
): { readonly version: number; readonly validate: Validate } | null {
  const event = Object.hasOwn(catalogue.events, type) ? catalogue.events[type] : undefined;
  if (event === undefined) return null;
  const version = newestVersion(event);
  const validate = catalogue.validators[validatorKey(type, version)];
  return validate === undefined ? null : { version, validate };
}
