import { createHash } from 'node:crypto';
import { type Catalogue, newestVersion } from './catalogue.ts';
import { CatalogueError } from './catalogue-error.ts';
import type { Validate } from './violation.ts';

/** What the generator writes beside a catalogue. */
export interface GeneratedValidators {
  /** `schemasFingerprint` of what they were made from. */
  readonly fingerprint: string;
  /** By `<name>/<version>`, such as `invoice.issued/1`. */
  readonly validators: Readonly<Record<string, Validate>>;
}

/** A catalogue whose schemas can be applied. */
export type CompiledCatalogue<C extends Catalogue = Catalogue> = C & {
  readonly validators: Readonly<Record<string, Validate>>;
};

/** Key of one schema version among the validators. */
export function validatorKey(type: string, version: number): string {
  return `${type}/${version}`;
}

/** All schemas of a catalogue by validator key: what the generator compiles. */
export function catalogueSchemas(catalogue: Catalogue): Readonly<Record<string, object>> {
  return Object.fromEntries(
    Object.entries(catalogue.events).flatMap(([type, event]) =>
      Object.entries(event.versions).map(([version, schema]) => [validatorKey(type, Number(version)), schema]),
    ),
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
  return Object.freeze({ ...catalogue, validators: generated.validators });
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
