import { schemaName } from './names.ts';

/** What the outbox knows of an event, as the relay reads it. */
export interface EnvelopeRow {
  /** UUID v7. */
  readonly id: string;
  /** The catalogue's `source`. */
  readonly source: string;
  readonly type: string;
  readonly schemaVersion: number;
  readonly aggregateType: string;
  readonly aggregateId: string;
  /** Place in the aggregate's history: a 64-bit integer, so never a JavaScript number. */
  readonly sequence: string | bigint;
  /** RFC 3339 with microseconds, as text from the database. */
  readonly occurredAt: string;
  /** JSON text as stored. */
  readonly data: string;
  readonly metadata: EventMetadata | null;
  /** Number of the replay that sends it again; absent in what is live. */
  readonly replay?: number;
}

/** Where an event comes from. All of it travels in the clear. */
export interface EventMetadata {
  /** W3C trace context. */
  readonly traceparent?: string;
  /** What belongs together across services. */
  readonly correlationid?: string;
  /** Id of the event that led to this one. */
  readonly causationid?: string;
}

/**
 * The message body: a CloudEvents 1.0 envelope as JSON text.
 *
 * `data` goes in as the text that is stored and is never parsed: `JSON.parse` would turn 9007199254740993 into
 * 9007199254740992. U+FFFE and U+FFFF, which SQS refuses, leave as escapes; everything else that SQS refuses cannot
 * stand raw in JSON text that PostgreSQL accepted.
 */
export function buildEnvelope(row: EnvelopeRow): string {
  const { metadata } = row;
  const head = JSON.stringify({
    specversion: '1.0',
    id: row.id,
    source: row.source,
    type: row.type,
    subject: row.aggregateId,
    time: row.occurredAt,
    datacontenttype: 'application/json',
    dataschema: schemaName(row.source, row.type, row.schemaVersion),
    sequence: String(row.sequence),
    partitionkey: `${row.aggregateType}/${row.aggregateId}`,
    aggregatetype: row.aggregateType,
    traceparent: metadata?.traceparent,
    correlationid: metadata?.correlationid,
    causationid: metadata?.causationid,
    replay: row.replay,
  });
  return escapeForQueue(`${head.slice(0, -1)},"data":${row.data}}`);
}

/** In JSON text these characters can only stand inside a string, where an escape means the same. */
function escapeForQueue(json: string): string {
  return json.replace(/[\uFFFE\uFFFF]/g, (character) => `\\u${character.charCodeAt(0).toString(16)}`);
}
