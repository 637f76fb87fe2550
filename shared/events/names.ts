/**
 * Grammar of event and aggregate types: lower case, so that a type reads the same in a table, a queue, a metric and a
 * file name. EventBridge's DetailType allows 128 characters.
 */
const TYPE_NAME = /^[a-z][a-z0-9.-]{0,127}$/;

/** Destinations and consumers also become metric dimensions and parts of resource names. */
const DESTINATION_NAME = /^[a-z][a-z0-9-]{0,62}$/;
const CONSUMER_NAME = DESTINATION_NAME;

/** CloudEvents `source`: a URI reference; here without query, fragment, escapes and trailing slash. */
const SOURCE = /^[A-Za-z0-9/](?:[A-Za-z0-9._~:/-]{0,126}[A-Za-z0-9._~-])?$/;

/** Types under this prefix are the outbox's own: `outbox.skipped` takes the place of an event that was set aside. */
export const RESERVED_TYPE_PREFIX = 'outbox.';

export const isTypeName = (text: string): boolean => TYPE_NAME.test(text);
export const isDestinationName = (text: string): boolean => DESTINATION_NAME.test(text);
export const isConsumerName = (text: string): boolean => CONSUMER_NAME.test(text);
export const isSource = (text: string): boolean => SOURCE.test(text);

/** Most characters (code points, as PostgreSQL's `char_length` counts them) of an aggregate id. At least one. */
export const MAX_AGGREGATE_ID_CHARACTERS = 200;

/** Whether an aggregate id has 1–200 code points. UTF-16 units are cheap to count and never fewer than code points. */
export function isAggregateIdLength(id: string): boolean {
  if (id.length === 0) return false;
  if (id.length <= MAX_AGGREGATE_ID_CHARACTERS) return true;
  if (id.length > 2 * MAX_AGGREGATE_ID_CHARACTERS) return false;
  return Array.from(id).length <= MAX_AGGREGATE_ID_CHARACTERS;
}

/** PostgreSQL's text holds neither U+0000 nor half a surrogate pair. */
export function isStorableText(text: string): boolean {
  return !text.includes('\u0000') && text.isWellFormed();
}

/** Name of one version of an event type's schema, as the envelope carries it in `dataschema`. */
export function schemaName(source: string, type: string, version: number): string {
  return `${source}/schemas/${type}/${version}`;
}
