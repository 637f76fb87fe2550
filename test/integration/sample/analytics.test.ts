import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { handlers } from '../../../functions/sample/analytics/handlers.ts';
import { catalogue } from '../../../functions/sample/catalogue/index.ts';
import { buildEnvelope } from '../../../shared/events/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { noMetrics } from '../../../shared/telemetry/index.ts';
import { testDatabase } from '../../support/database.ts';
import { recordingLog } from '../../support/recorders.ts';
import { fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
const pool = database.pool('sealed_analytics');
const handler = eventConsumer({
  name: 'analytics',
  mode: 'any',
  catalogue,
  handlers,
  pool,
  log: recordingLog(),
  metrics: noMetrics,
});

/** As a standard queue hands it over: what EventBridge took out of its own event, written anew. */
function paid(sequence: number, occurredAt: string, totalMinor: number, currency = 'EUR') {
  const invoiceId = randomUUID();
  const envelope = buildEnvelope({
    id: randomUUID(),
    source: '/invoices',
    type: 'invoice.paid',
    schemaVersion: 1,
    aggregateType: 'invoice',
    aggregateId: invoiceId,
    sequence: BigInt(sequence),
    occurredAt,
    data: JSON.stringify({ invoiceId, currency, totalMinor }),
    metadata: null,
  });
  const record = fifoRecord(invoiceId, JSON.stringify(JSON.parse(envelope)));
  return { ...record, eventSourceARN: record.eventSourceARN.replace(/\.fifo$/, '') };
}

async function days(): Promise<unknown[]> {
  const { rows } = await pool.query(
    `select day::text || ' ' || currency || ' ' || events || ' ' || amount_minor as text from sample.analytics_day order by 1`,
  );
  return rows.map(({ text }) => text);
}

describe('analytics', () => {
  it('counts each event once, in any order and however often it comes, on the day of its own time', async () => {
    const batch = [
      paid(9, '2026-11-30T23:59:59.999999Z', 100),
      paid(2, '2026-12-01T00:30:00.000000+01:00', 200),
      paid(7, '2026-12-01T00:00:00.000000Z', 400),
      paid(1, '2026-11-30T12:00:00.000000Z', Number.MAX_SAFE_INTEGER, 'USD'),
    ];
    expect(await invoke(handler, batch)).toEqual([]);
    expect(await invoke(handler, batch.toReversed())).toEqual([]);
    expect(
      await invoke(handler, [...batch, paid(3, '2026-11-30T12:00:00.000000Z', Number.MAX_SAFE_INTEGER, 'USD')]),
    ).toEqual([]);
    expect(await days()).toEqual([
      '2026-11-30 EUR 2 300',
      '2026-11-30 USD 2 18014398509481982',
      '2026-12-01 EUR 1 400',
    ]);
  });

  it('sees neither the ledger nor the invoices', async () => {
    for (const table of ['invoice', 'ledger_entry', 'ledger_invoice', 'idempotency']) {
      await expect(pool.query(`select from sample.${table}`)).rejects.toMatchObject({ code: '42501' });
    }
    await expect(pool.query('delete from sample.analytics_day')).rejects.toMatchObject({ code: '42501' });
  });
});
