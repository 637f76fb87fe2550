import { createAjv } from '../../cli/generate/compile-schemas.ts';
import {
  type Catalogue,
  catalogueSchemas,
  type CompiledCatalogue,
  compiledCatalogue,
  schemasFingerprint,
} from '../../shared/events/index.ts';

/** A catalogue with validators compiled on the spot, for tests that make up their own event types. */
export function compileCatalogue<const C extends Catalogue>(catalogue: C): CompiledCatalogue<C> {
  const ajv = createAjv({ allErrors: false });
  const schemas = catalogueSchemas(catalogue);
  const validators = Object.fromEntries(Object.entries(schemas).map(([key, schema]) => [key, ajv.compile(schema)]));
  return compiledCatalogue(catalogue, { fingerprint: schemasFingerprint(schemas), validators });
}
