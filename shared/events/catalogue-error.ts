import { SealedOutboxError } from '../errors/index.ts';

/**
 * What is wrong with a catalogue. All of them are found while it is defined or built, before anything is deployed:
 *
 * - `CATALOGUE_NAME`: a source, event type, aggregate type or destination breaks its grammar;
 * - `CATALOGUE_VERSION`: schema versions do not count 1, 2, 3 …;
 * - `CATALOGUE_UPCAST`: upcasters do not lead from version to version up to the newest;
 * - `CATALOGUE_POLICY`: what happens behind a parked event is not said;
 * - `CATALOGUE_DESTINATION`: a destination's settings are not possible;
 * - `CATALOGUE_ROUTE`: an event type is routed to an unknown destination, or twice to one;
 * - `CATALOGUE_SCHEMA`: a schema is not valid JSON Schema 2020-12 in strict mode;
 * - `CATALOGUE_SENSITIVE`: marks of personal data cannot be kept; the cause is a `SealingSchemaError` with code and place;
 * - `CATALOGUE_STALE`: the generated validators were made from other schemas;
 * - `CATALOGUE_RELEASED`: the file that says what was released is damaged.
 */
export type CatalogueErrorCode =
  | 'CATALOGUE_NAME'
  | 'CATALOGUE_VERSION'
  | 'CATALOGUE_UPCAST'
  | 'CATALOGUE_POLICY'
  | 'CATALOGUE_DESTINATION'
  | 'CATALOGUE_ROUTE'
  | 'CATALOGUE_SCHEMA'
  | 'CATALOGUE_SENSITIVE'
  | 'CATALOGUE_STALE'
  | 'CATALOGUE_RELEASED';

/** The catalogue contradicts itself or its generated code. The message names the entry and the remedy. */
export class CatalogueError extends SealedOutboxError {
  declare readonly code: CatalogueErrorCode;

  constructor(code: CatalogueErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
}
