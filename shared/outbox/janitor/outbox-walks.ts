import type { Archive, ArchivedEvent } from '../../archive/index.ts';
import { archiveEvents } from '../../archive/index.ts';
import type { Queryable, Row } from '../../database/index.ts';
import type { Walk } from '../../retention/index.ts';
import type { Metrics } from '../../telemetry/index.ts';

export interface OutboxRetention {
  /** An event stays for so long after the last of its deliveries was published. Seconds. */
  readonly keepSeconds: number;
  /** Where events go before they are deleted. Without one they are deleted only. */
  readonly archive?: Archive | undefined;
  readonly metrics: Metrics;
  /** Deliveries of a page at most, which also ends with 16 MB of events. Default: 2,000, about 2 MB of events of 1 KB and 50 ms. */
  readonly page?: number;
  /** How often a walk starts at the beginning, for what an earlier one had to leave behind. Default: an hour. Seconds. */
  readonly sweepSeconds?: number;
}

const WALKS = [
  { name: 'deliveries', type: 'bigint', prune: 'outbox.prune', archivable: 'outbox.archivable' },
  { name: 'unrouted', type: 'uuid', prune: 'outbox.prune_unrouted', archivable: 'outbox.archivable_unrouted' },
] as const;

/**
 * The outbox's walks: along the deliveries, and then along events that have none. What may go, and that nothing else does, is decided by the
 * functions of `migrations/outbox/0008_retention.sql` and `0016_nothing_stays.sql`. Role: `outbox_janitor`, with an archive `outbox_archiver` too.
 *
 * First archive, then delete what is confirmed to be there: a crash in between archives twice, and a reader gives each event once.
 */
export function outboxWalks(db: Queryable, options: OutboxRetention): Walk[] {
  const { keepSeconds, archive, metrics, page = 2_000, sweepSeconds = 3_600 } = options;
  return WALKS.map(({ name, type, prune, archivable }) => ({
    area: 'outbox',
    name,
    afterPrevious: name === 'unrouted',
    async begin() {
      const { rows } = await db.query(`select outbox.begin_walk($1, $2 * interval '1 second') as mark`, [
        name,
        sweepSeconds,
      ]);
      return rows[0].mark as string;
    },
    async page(mark) {
      const values = [mark, keepSeconds, page];
      const here = `$1::${type}, $2 * interval '1 second', $3`;
      let archived: readonly string[] | null = null;
      if (archive !== undefined) {
        const { rows } = await db.query(`select * from ${archivable}(${here})`, values);
        const { events, bytes } = await archiveEvents(archive, rows.map(archivedEvent));
        archived = events;
        metrics.add('Archived', 'Count', events.length);
        metrics.add('ArchivedBytes', 'Bytes', bytes);
      }
      const { rows } = await db.query(`select * from ${prune}(${here}, $4)`, [...values, archived]);
      const [{ reached, more, behind_seconds: behindSeconds = 0, events, deliveries = 0 }] = rows;
      return { mark: String(reached), more, behindSeconds, removed: { event: events, delivery: deliveries } };
    },
  }));
}

function archivedEvent(row: Row): ArchivedEvent {
  return {
    id: row.id,
    aggregateType: row.aggregate_type,
    aggregateId: row.aggregate_id,
    sequence: BigInt(row.sequence),
    type: row.type,
    schemaVersion: row.schema_version,
    occurredAt: row.occurred_at,
    data: row.data,
    metadata: row.metadata,
    deliveries: row.deliveries.map((delivery: Row) => ({
      destination: delivery.destination,
      state: delivery.state,
      publishedAt: delivery.published_at,
      messageId: delivery.message_id,
    })),
  };
}
