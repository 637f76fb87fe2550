import type { FromSchema, JSONSchema } from 'json-schema-to-ts';

/**
 * A JSON Schema 2020-12 of an object. Keep it `as const` (or inline in `defineCatalogue`), so that the type of the
 * data follows from it. Whether it is a good schema is decided when it is compiled, in ajv's strict mode.
 *
 * `x-gdpr-sensitive` marks personal data, which is sealed wherever it is stored or sent (docs/sensitive-data.md).
 */
export type EventSchema = { readonly type: 'object'; readonly [keyword: string]: unknown };

/** The TypeScript type of what a schema describes. Keywords that types cannot say (patterns, bounds) are left out. */
export type DataOf<Schema> = Schema extends JSONSchema ? FromSchema<Schema> : unknown;
