import { SealedOutboxError } from '../../errors/index.ts';

/**
 * What is wrong with the marks of a schema. All of it is found when the catalogue is defined, before anything is deployed.
 *
 * - `SEALING_MARK_INVALID`: the keyword's value says nothing that can be done;
 * - `SEALING_MARK_PLACE`: a mark where no value gets by it, such as under `not`, or on the whole of the data;
 * - `SEALING_MARK_CONFLICT`: two marks for one place that differ;
 * - `SEALING_MARK_NESTED`: a mark inside a value that is sealed as a whole;
 * - `SEALING_CONDITION`: a condition looks at a value that only its readers can see;
 * - `SEALING_SCHEMA_OPEN`: unknown fields would pass beside a marked one, in clear;
 * - `SEALING_SUBJECT`: the person's id is not surely there, or is sealed itself;
 * - `SEALING_REFERENCE`: a reference that cannot be followed here;
 * - `SEALING_PATTERN`: a pattern that JavaScript and PostgreSQL may read differently, or that overlaps another;
 * - `SEALING_SCHEMA_LIMIT`: more places than can be told apart.
 */
export type SealingSchemaErrorCode =
  | 'SEALING_MARK_INVALID'
  | 'SEALING_MARK_PLACE'
  | 'SEALING_MARK_CONFLICT'
  | 'SEALING_MARK_NESTED'
  | 'SEALING_CONDITION'
  | 'SEALING_SCHEMA_OPEN'
  | 'SEALING_SUBJECT'
  | 'SEALING_REFERENCE'
  | 'SEALING_PATTERN'
  | 'SEALING_SCHEMA_LIMIT';

/** The marks of a schema contradict each other or the schema. */
export class SealingSchemaError extends SealedOutboxError {
  declare readonly code: SealingSchemaErrorCode;
  /** Where in the schema, as a JSON Pointer in a fragment: `#/properties/email`. */
  readonly schemaPath: string;

  constructor(code: SealingSchemaErrorCode, schemaPath: string, reason: string) {
    super(code, `${schemaPath}: ${reason}`);
    this.schemaPath = schemaPath;
  }
}
