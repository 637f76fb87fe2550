import { SealedOutboxError } from '../errors/index.ts';

export interface ArchivedDelivery {
  /** The destination's name in the catalogue. */
  readonly destination: string;
  readonly state: 'published' | 'set_aside';
  readonly publishedAt: string | null;
  /** What the destination called it. */
  readonly messageId: string | null;
}

/** An event as the outbox had it. */
export interface ArchivedEvent {
  readonly id: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly sequence: bigint;
  readonly type: string;
  readonly schemaVersion: number;
  /** RFC 3339, UTC, with microseconds. */
  readonly occurredAt: string;
  /** JSON as it was written, digit by digit. */
  readonly data: string;
  readonly metadata: string | null;
  readonly deliveries: readonly ArchivedDelivery[];
}

/** A file of the archive is not as the janitor wrote it. Code `ARCHIVE_DAMAGED`; names file and line. */
export class ArchiveDamagedError extends SealedOutboxError {
  constructor(file: string, line: number, reason: string, options?: ErrorOptions) {
    super(
      'ARCHIVE_DAMAGED',
      `${file}, line ${line}: ${reason}. The events of this file were not all read. Fetch an older version of the file, or leave it out.`,
      options,
    );
  }
}

/**
 * One line of NDJSON, under the names of the table's columns. `data` and `metadata` are strings that hold JSON: whatever reads the line
 * as JSON gets their text unchanged, numbers beyond 2^53 included.
 */
export function lineOf(event: ArchivedEvent): string {
  return `${JSON.stringify({
    id: event.id,
    aggregate_type: event.aggregateType,
    aggregate_id: event.aggregateId,
    sequence: String(event.sequence),
    type: event.type,
    schema_version: event.schemaVersion,
    occurred_at: event.occurredAt,
    data: event.data,
    metadata: event.metadata,
    deliveries: event.deliveries.map(({ destination, state, publishedAt, messageId }) => ({
      destination,
      state,
      published_at: publishedAt,
      message_id: messageId,
    })),
  })}\n`;
}

type Fields = Readonly<Record<string, unknown>>;

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const RULES: Readonly<Record<string, (value: unknown) => boolean>> = {
  id: (value) => isText(value) && UUID.test(value),
  aggregate_type: isText,
  aggregate_id: isText,
  sequence: (value) => isText(value) && /^[1-9]\d{0,18}$/.test(value),
  type: isText,
  schema_version: (value) => Number.isInteger(value) && (value as number) >= 1,
  occurred_at: (value) => isText(value) && /^\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/.test(value),
  data: isJson,
  metadata: (value) => value === null || isJson(value),
  deliveries: (value) => Array.isArray(value) && value.every(isDelivery),
};

/** @throws ArchiveDamagedError (`ARCHIVE_DAMAGED`) naming the field that is not what it must be, never its value */
export function eventOfLine(line: string, file: string, number: number): ArchivedEvent {
  const fields = parse(line) as Fields | null | undefined;
  if (typeof fields !== 'object' || fields === null)
    throw new ArchiveDamagedError(file, number, 'it is no JSON object');
  for (const [name, holds] of Object.entries(RULES)) {
    if (!holds(fields[name])) throw new ArchiveDamagedError(file, number, `"${name}" is missing or malformed`);
  }
  return {
    id: fields['id'] as string,
    aggregateType: fields['aggregate_type'] as string,
    aggregateId: fields['aggregate_id'] as string,
    sequence: BigInt(fields['sequence'] as string),
    type: fields['type'] as string,
    schemaVersion: fields['schema_version'] as number,
    occurredAt: fields['occurred_at'] as string,
    data: fields['data'] as string,
    metadata: fields['metadata'] as string | null,
    deliveries: (fields['deliveries'] as Fields[]).map((delivery) => ({
      destination: delivery['destination'] as string,
      state: delivery['state'] as ArchivedDelivery['state'],
      publishedAt: delivery['published_at'] as string | null,
      messageId: delivery['message_id'] as string | null,
    })),
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isJson(value: unknown): boolean {
  return isText(value) && parse(value) !== undefined;
}

function isDelivery(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { destination, state, published_at: publishedAt, message_id: messageId } = value as Fields;
  const textOrNull = (it: unknown): boolean => it === null || typeof it === 'string';
  return (
    isText(destination) &&
    (state === 'published' || state === 'set_aside') &&
    textOrNull(publishedAt) &&
    textOrNull(messageId)
  );
}

/** Undefined for what is no JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
