import { isTraceparent } from '../telemetry/index.ts';
import { isAggregateIdLength, isSource, isStorableText, isTypeName, schemaName } from './names.ts';

/** An event as a consumer gets it. */
export interface ReceivedEvent<Type extends string = string, Data = unknown> {
  /** The consumer's key against repeats: lower-case UUID. */
  readonly id: string;
  readonly source: string;
  readonly type: Type;
  readonly schemaVersion: number;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly sequence: bigint;
  /** RFC 3339, as written. */
  readonly time: string;
  readonly traceparent: string | undefined;
  readonly correlationid: string | undefined;
  readonly causationid: string | undefined;
  /** Number of the replay that sent it again; absent in what is live. */
  readonly replay?: number;
  /** Parsed, not yet checked against a schema. Integers beyond 2^53 have lost digits here; the body has them all. */
  readonly data: Data;
}

/**
 * - `foreign`: not a CloudEvents 1.0 envelope at all; somebody else's message;
 * - `broken`: an envelope that breaks its own rules.
 */
export type EnvelopeFault = 'foreign' | 'broken';

export type ParsedEnvelope =
  | { readonly ok: true; readonly event: ReceivedEvent }
  | { readonly ok: false; readonly fault: EnvelopeFault; readonly reason: string };

/** No queue delivers more. Bytes of UTF-8. */
const MAX_BODY_BYTES = 1_048_576;
const MAX_SEQUENCE = 2n ** 63n - 1n;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const SEQUENCE = /^[1-9][0-9]{0,18}$/;
const TIME =
  /^(\d{4})-(\d{2})-(\d{2})T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;

/**
 * Reads a message body. Never throws, whatever the body; a reason names the attribute and the rule, never a value.
 * Attributes that it does not know are ignored, as CloudEvents asks.
 */
export function parseEnvelope(body: string): ParsedEnvelope {
  // A string has at most three bytes of UTF-8 per unit: short ones need no counting.
  if (body.length * 3 > MAX_BODY_BYTES && Buffer.byteLength(body) > MAX_BODY_BYTES) {
    return foreign(`the body has more than ${MAX_BODY_BYTES} bytes`);
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return foreign('the body is not JSON');
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    return foreign('the body is not a JSON object');
  }
  const envelope = parsed as Readonly<Record<string, unknown>>;
  const specversion = own(envelope, 'specversion');
  if (specversion === undefined) return foreign('specversion is missing');
  if (specversion !== '1.0') return foreign('specversion is not 1.0');

  const id = own(envelope, 'id');
  if (typeof id !== 'string' || !UUID.test(id)) return broken('id is not a lower-case UUID');
  const source = own(envelope, 'source');
  if (typeof source !== 'string' || !isSource(source)) return broken('source is not a source');
  const type = own(envelope, 'type');
  if (typeof type !== 'string' || !isTypeName(type)) return broken('type breaks the grammar of event types');
  const aggregateType = own(envelope, 'aggregatetype');
  if (typeof aggregateType !== 'string' || !isTypeName(aggregateType)) {
    return broken('aggregatetype breaks the grammar of aggregate types');
  }
  const aggregateId = own(envelope, 'subject');
  if (typeof aggregateId !== 'string' || !isAggregateIdLength(aggregateId) || !isStorableText(aggregateId)) {
    return broken('subject is not an aggregate id of 1-200 characters');
  }
  if (own(envelope, 'partitionkey') !== `${aggregateType}/${aggregateId}`) {
    return broken('partitionkey is not aggregatetype/subject');
  }
  const sequence = parseSequence(own(envelope, 'sequence'));
  if (sequence === null) return broken('sequence is not a decimal string from 1 to 9223372036854775807');
  const time = own(envelope, 'time');
  if (typeof time !== 'string' || !isTime(time)) return broken('time is not an RFC 3339 time');
  if (own(envelope, 'datacontenttype') !== 'application/json') return broken('datacontenttype is not application/json');
  const schemaVersion = parseDataSchema(own(envelope, 'dataschema'), source, type);
  if (schemaVersion === null) return broken('dataschema does not name a version of this source and type');

  // A trace context that is none is ignored, as W3C asks: it must never cost an event.
  const trace = own(envelope, 'traceparent');
  const traceparent = typeof trace === 'string' && isTraceparent(trace) ? trace : undefined;
  const correlationid = own(envelope, 'correlationid');
  if (!isOptionalText(correlationid)) return broken('correlationid is not a string');
  const causationid = own(envelope, 'causationid');
  if (!isOptionalText(causationid)) return broken('causationid is not a string');
  const replay = own(envelope, 'replay');
  if (!isOptionalReplay(replay)) return broken('replay is not an integer from 1 to 2147483647');
  if (!Object.hasOwn(envelope, 'data')) return broken('data is missing');

  return {
    ok: true,
    event: {
      id,
      source,
      type,
      schemaVersion,
      aggregateType,
      aggregateId,
      sequence,
      time,
      traceparent,
      correlationid,
      causationid,
      ...(replay !== undefined && { replay }),
      data: envelope['data'],
    },
  };
}

/** Own properties only: a body must not borrow from Object.prototype. */
function own(envelope: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(envelope, name) ? envelope[name] : undefined;
}

function foreign(reason: string): ParsedEnvelope {
  return { ok: false, fault: 'foreign', reason };
}

function broken(reason: string): ParsedEnvelope {
  return { ok: false, fault: 'broken', reason };
}

function isOptionalText(value: unknown): value is string | undefined {
  return value === undefined || (typeof value === 'string' && isStorableText(value));
}

function isOptionalReplay(value: unknown): value is number | undefined {
  return value === undefined || (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 2_147_483_647);
}

function parseSequence(value: unknown): bigint | null {
  if (typeof value !== 'string' || !SEQUENCE.test(value)) return null;
  const sequence = BigInt(value);
  return sequence <= MAX_SEQUENCE ? sequence : null;
}

function parseDataSchema(value: unknown, source: string, type: string): number | null {
  if (typeof value !== 'string') return null;
  const match = /\/([1-9][0-9]{0,5})$/.exec(value);
  if (match === null) return null;
  const version = Number(match[1]);
  return value === schemaName(source, type, version) ? version : null;
}

function isTime(text: string): boolean {
  const match = TIME.exec(text);
  if (match === null) return false;
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])];
  if (month < 1 || month > 12 || day < 1) return false;
  // Day 0 of the next month is the last of this one.
  return day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
}
