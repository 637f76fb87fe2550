import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { catalogue } from '../../../functions/sample/catalogue/index.ts';
import { namingHandlers } from '../../../functions/sample/ledger/handlers.ts';
import { buildEnvelope } from '../../../shared/events/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { noMetrics } from '../../../shared/telemetry/index.ts';
import { testDatabase } from '../../support/database.ts';
import { recordingLog } from '../../support/recorders.ts';
import { sampleKeyring } from '../../support/sample.ts';
import { fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();

function ledger() {
  const pool = database.pool('sealed_ledger');
  const log = recordingLog();
  const handler = eventConsumer({
    name: 'ledger',
    mode: 'strict',
    startingPoint: 'beginning',
    destination: 'ledger',
    catalogue,
    handlers: namingHandlers(sampleKeyring(pool)),
    pool,
    log,
    metrics: noMetrics,
  });
  return { handler, pool, log };
}

/** The events of one invoice: issued, two payments, paid. */
function invoiceHistory(invoiceId: string) {
  const currency = 'EUR';
  const totalMinor = 12_000;
  const payment = (amountMinor: number, paidMinor: number) => ({
    invoiceId,
    paymentId: randomUUID(),
    currency,
    amountMinor,
    paidMinor,
    remainingMinor: totalMinor - paidMinor,
  });
  const history: [string, object][] = [
    [
      'invoice.issued',
      {
        invoiceId,
        customerId: randomUUID(),
        currency,
        totalMinor,
        lines: [{ description: 'Consulting', quantity: 2, unitPriceMinor: 6_000 }],
        dueOn: '2026-12-31',
      },
    ],
    ['invoice.payment-recorded', payment(5_000, 5_000)],
    ['invoice.payment-recorded', payment(7_000, 12_000)],
    ['invoice.paid', { invoiceId, currency, totalMinor }],
  ];
  return history.map(([type, data], index) =>
    fifoRecord(
      invoiceId,
      buildEnvelope({
        id: randomUUID(),
        source: '/invoices',
        type,
        schemaVersion: 1,
        aggregateType: 'invoice',
        aggregateId: invoiceId,
        sequence: BigInt(index + 1),
        occurredAt: '2026-11-30T12:00:00.123456Z',
        data: JSON.stringify(data),
        metadata: null,
      }),
    ),
  );
}

describe('the ledger', () => {
  it('follows an invoice from its issue to its payment, each event once and in order, however often they come', async () => {
    const { handler, pool, log } = ledger();
    const invoiceId = randomUUID();
    const history = invoiceHistory(invoiceId);
    expect(await invoke(handler, history.slice(0, 2))).toEqual([]);
    expect(await invoke(handler, history)).toEqual([]);
    expect(await invoke(handler, history)).toEqual([]);

    const invoices = await pool.query('select * from sample.ledger_invoice where invoice_id = $1', [invoiceId]);
    expect(invoices.rows).toEqual([
      {
        invoice_id: invoiceId,
        currency: 'EUR',
        total_minor: '12000',
        paid_minor: '12000',
        status: 'paid',
        last_sequence: '4',
        effects: 4,
        customer_name: null,
      },
    ]);
    const entries = await pool.query(
      'select sequence, kind, amount_minor from sample.ledger_entry where invoice_id = $1 order by entry',
      [invoiceId],
    );
    expect(entries.rows).toEqual([
      { sequence: '1', kind: 'issued', amount_minor: '12000' },
      { sequence: '2', kind: 'payment', amount_minor: '5000' },
      { sequence: '3', kind: 'payment', amount_minor: '7000' },
      { sequence: '4', kind: 'paid', amount_minor: '0' },
    ]);
    expect(log.lines.filter(({ level }) => level !== 'debug')).toEqual([]);
  });

  it('adds up several payments of one invoice, and of others, that come in one transaction', async () => {
    const { handler, pool } = ledger();
    const histories = [randomUUID(), randomUUID()].map((id) => ({ id, records: invoiceHistory(id) }));
    expect(
      await invoke(
        handler,
        histories.flatMap(({ records }) => records.slice(0, 1)),
      ),
    ).toEqual([]);
    expect(
      await invoke(
        handler,
        histories.flatMap(({ records }) => records.slice(1)),
      ),
    ).toEqual([]);
    const entries = await pool.query(
      `select count(distinct xmin::text)::int as transactions, count(*)::int as entries from sample.ledger_entry
        where invoice_id = any ($1) and kind <> 'issued'`,
      [histories.map(({ id }) => id)],
    );
    expect(entries.rows).toEqual([{ transactions: 1, entries: 6 }]);
    for (const { id } of histories) {
      const { rows } = await pool.query(
        `select paid_minor, status, last_sequence, effects,
                (select array_agg(sequence::int order by entry) from sample.ledger_entry where invoice_id = $1) as entered
           from sample.ledger_invoice where invoice_id = $1`,
        [id],
      );
      expect(rows).toEqual([
        { paid_minor: '12000', status: 'paid', last_sequence: '4', effects: 4, entered: [1, 2, 3, 4] },
      ]);
    }
  });

  it('holds a payment that comes before the invoice, and takes it after', async () => {
    const { handler, log, pool } = ledger();
    const invoiceId = randomUUID();
    const [issued, payment] = invoiceHistory(invoiceId);
    if (issued === undefined || payment === undefined) throw new Error('the history has an issue and a payment');
    const kinds = async () => {
      const { rows } = await pool.query('select kind from sample.ledger_entry where invoice_id = $1 order by entry', [
        invoiceId,
      ]);
      return rows.map(({ kind }) => kind as string);
    };
    expect(await invoke(handler, [payment])).toEqual([]);
    expect(log.lines).toMatchObject([{ fields: { reason: 'gap', expected: '1' } }]);
    expect(await kinds()).toEqual([]);
    expect(await invoke(handler, [issued])).toEqual([]);
    expect(await kinds()).toEqual(['issued', 'payment']);
  });

  it.each([
    'delete from sample.ledger_entry',
    'update sample.ledger_entry set amount_minor = 0',
    'delete from sample.ledger_invoice',
    'delete from inbox.processed_event',
    'update inbox.consumer set mode = mode',
    'delete from inbox.stream_position',
    'select from outbox.event',
  ])('may not: %s', async (sql) => {
    const client = await database.client('sealed_ledger');
    await expect(client.query(sql)).rejects.toMatchObject({ code: '42501' });
  });
});
