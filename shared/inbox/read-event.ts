import {
  type CompiledCatalogue,
  parseEnvelope,
  type ReceivedEvent,
  RESERVED_TYPE_PREFIX,
  type Validate,
  validatorKey,
  violations,
} from '../events/index.ts';
import type { Failure, FailureClass } from './failure.ts';

export type ReadEvent =
  | { readonly ok: true; readonly event: ReceivedEvent }
  /** `event` is there when the envelope is sound and only its type or data are not. */
  | { readonly ok: false; readonly failure: Failure; readonly event?: ReceivedEvent };

const SHOWN_VIOLATIONS = 3;

/** Reads a message body and holds it against the catalogue, what is sealed as it came. Never throws, whatever the body. */
export function readEvent(catalogue: CompiledCatalogue, body: string): ReadEvent {
  const parsed = parseEnvelope(body);
  if (!parsed.ok) {
    const code = parsed.fault === 'foreign' ? 'NOT_AN_ENVELOPE' : 'ENVELOPE_BROKEN';
    return { ok: false, failure: { class: 'malformed', code, reason: parsed.reason } };
  }
  const { event } = parsed;
  const refuse = (failureClass: FailureClass, code: string, reason: string): ReadEvent => ({
    ok: false,
    failure: { class: failureClass, code, reason },
    event,
  });
  // The outbox's own events take the place of others; they say nothing that a schema could describe.
  if (event.type.startsWith(RESERVED_TYPE_PREFIX)) return { ok: true, event };

  const definition = Object.hasOwn(catalogue.events, event.type) ? catalogue.events[event.type] : undefined;
  if (definition === undefined || event.source !== catalogue.source) {
    return refuse('unknown-type', 'EVENT_TYPE_UNKNOWN', "the consumer's catalogue does not hold this source and type");
  }
  if (event.aggregateType !== definition.aggregate) {
    return refuse('malformed', 'ENVELOPE_BROKEN', 'aggregatetype is not the one of this type in the catalogue');
  }
  const key = validatorKey(event.type, event.schemaVersion);
  const validate = Object.hasOwn(catalogue.validators, key) ? catalogue.validators[key] : undefined;
  if (validate === undefined) {
    return refuse('unknown-version', 'EVENT_VERSION_UNKNOWN', "the consumer's catalogue does not hold this version");
  }
  const reason = violationsText(catalogue.sealed.get(key)?.validate ?? validate, event.data);
  return reason === undefined ? { ok: true, event } : refuse('malformed', 'EVENT_DATA_INVALID', reason);
}

/** The rules that data breaks, by their places; undefined where it is valid. */
export function violationsText(validate: Validate | undefined, data: unknown): string | undefined {
  const found = validate === undefined ? [] : violations(validate, data, SHOWN_VIOLATIONS);
  return found.length === 0 ? undefined : found.map(({ pointer, detail }) => `data${pointer} ${detail}`).join('; ');
}
