import { randomUUID } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import { catalogue } from '../../../functions/sample/catalogue/index.ts';
import { notificationHandlers } from '../../../functions/sample/notifications/handlers.ts';
import { mailClient } from '../../../functions/sample/notifications/mail-client.ts';
import { buildEnvelope } from '../../../shared/events/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { testDatabase } from '../../support/database.ts';
import { providerPerTest } from '../../support/mail-delivery.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';
import { sampleKeyring } from '../../support/sample.ts';
import { contextFor, invoke, standardRecord } from '../../support/sqs-batch.ts';

const database = await testDatabase();
const pool = database.pool('sealed_notifications');
const provider = providerPerTest();

/** `whenNoted` runs in the transaction, after the mail was noted. */
function notifications(whenNoted = () => {}) {
  const log = recordingLog();
  const metrics = recordingMetrics();
  const handlers = notificationHandlers(mailClient(provider.current.url), sampleKeyring(pool));
  const issued = handlers['invoice.issued'];
  if (issued === undefined || typeof issued === 'function' || 'handleMany' in issued)
    throw new Error('it has a step before');
  const handler = eventConsumer({
    name: 'notifications',
    mode: 'any',
    catalogue,
    pool,
    log,
    metrics,
    margins: { startMs: 100, stopMs: 50 },
    handlers: {
      'invoice.issued': {
        ...issued,
        handle: async (event, context) => {
          await issued.handle(event, context);
          whenNoted();
        },
      },
    },
  });
  return { handler, log, metrics };
}

function issued(invoiceId: string, customerId: string = randomUUID()) {
  return standardRecord(
    buildEnvelope({
      id: randomUUID(),
      source: '/invoices',
      type: 'invoice.issued',
      schemaVersion: 1,
      aggregateType: 'invoice',
      aggregateId: invoiceId,
      sequence: 1n,
      occurredAt: new Date().toISOString(),
      data: JSON.stringify({
        invoiceId,
        customerId,
        currency: 'EUR',
        totalMinor: 1200,
        dueOn: '2030-01-31',
        lines: [{ description: 'Translation', quantity: 12, unitPriceMinor: 100 }],
      }),
      metadata: null,
    }),
  );
}

async function noted(invoiceId: string): Promise<string[]> {
  const { rows } = await pool.query('select mail_id from sample.notification where invoice_id = $1', [invoiceId]);
  return rows.map(({ mail_id: id }) => id as string);
}

/** One mail at the provider, and noted once under its id. */
async function expectOneMail(invoiceId: string): Promise<void> {
  const sent = provider.current.mails().filter(({ reference }) => reference === invoiceId);
  expect(sent).toHaveLength(1);
  expect(await noted(invoiceId)).toEqual(sent.map(({ id }) => id));
}

describe('notifications', () => {
  it('send one mail for an invoice, however often the message comes', async () => {
    const { handler, metrics } = notifications();
    const invoiceId = randomUUID();
    const record = issued(invoiceId);
    expect(await invoke(handler, [record])).toEqual([]);
    expect(await invoke(handler, [record, record])).toEqual([]);
    await expectOneMail(invoiceId);
    expect(provider.current.requests()).toHaveLength(1);
    expect(metrics.sum('Effects')).toBe(1);
    expect(metrics.sum('Repeats')).toBe(2);
  });

  it('send one mail where two functions get the message at the same time', async () => {
    provider.current.plan('late');
    const [one, two] = [notifications(), notifications()];
    const invoiceId = randomUUID();
    const record = issued(invoiceId);
    const first = invoke(one.handler, [record]);
    await vi.waitUntil(() => provider.current.requests().length === 1);
    expect(await invoke(two.handler, [record])).toEqual([record.messageId]);
    expect(two.log.lines).toMatchObject([{ level: 'warn', fields: { class: 'retry', code: 'CALL_LEASED' } }]);
    provider.current.release();
    expect(await first).toEqual([]);
    expect(await invoke(two.handler, [record])).toEqual([]);
    await expectOneMail(invoiceId);
  });

  it.each(['act-and-drop', 'fail'] as const)('send one mail through a provider that meets: %s', async (fault) => {
    const { handler, metrics, log } = notifications();
    const invoiceId = randomUUID();
    const record = issued(invoiceId);
    provider.current.plan(fault);
    expect(await invoke(handler, [record])).toEqual([record.messageId]);
    expect(metrics.sum('Returned', { Class: 'retry' })).toBe(1);
    expect(log.lines).toMatchObject([{ level: 'warn', fields: { class: 'retry', code: 'CALL_UNANSWERED' } }]);
    expect(await noted(invoiceId)).toEqual([]);
    expect(await invoke(handler, [record])).toEqual([]);
    await expectOneMail(invoiceId);
  });

  it('charge a mail that the provider refuses to its event, and say nothing of what is in it', async () => {
    const { handler, metrics, log } = notifications();
    const customerId = randomUUID();
    const record = issued(randomUUID(), customerId);
    provider.current.plan('refuse');
    expect(await invoke(handler, [record])).toEqual([record.messageId]);
    expect(metrics.sum('Returned', { Class: 'handler' })).toBe(1);
    expect(log.lines).toMatchObject([{ level: 'error', fields: { class: 'handler', code: 'CALL_REFUSED' } }]);
    expect(JSON.stringify(log.lines)).not.toContain(customerId);
  });

  it('send one mail where the transaction after it fails', async () => {
    let failures = 1;
    const { handler } = notifications(() => {
      if (failures-- > 0) throw new Error('after the mail was noted');
    });
    const invoiceId = randomUUID();
    const record = issued(invoiceId);
    expect(await invoke(handler, [record])).toEqual([record.messageId]);
    expect(await noted(invoiceId)).toEqual([]);
    expect(await invoke(handler, [record])).toEqual([]);
    await expectOneMail(invoiceId);
    expect(provider.current.requests()).toHaveLength(1);
  });

  it('like case 34: give up a provider that does not answer before the invocation ends, and send one mail all the same', async () => {
    const { handler, log } = notifications();
    const invoiceId = randomUUID();
    const record = issued(invoiceId);
    await invoke(handler, []); // registers and connects: the time below is the call's alone
    provider.current.plan('act-and-hang');
    expect(await invoke(handler, [record], contextFor(3_000))).toEqual([record.messageId]);
    // A machine so slow that the call was not even begun says OUT_OF_TIME.
    expect(['CALL_UNANSWERED', 'OUT_OF_TIME']).toContain(log.lines[0]?.fields['code']);
    while ((await invoke(handler, [record])).length > 0);
    await expectOneMail(invoiceId);
  });

  it('see neither the ledger nor the invoices, and forget nothing', async () => {
    for (const table of ['invoice', 'ledger_entry', 'analytics_day', 'idempotency']) {
      await expect(pool.query(`select from sample.${table}`)).rejects.toMatchObject({ code: '42501' });
    }
    for (const sql of ['delete from sample.notification', `update sample.notification set mail_id = 'x'`]) {
      await expect(pool.query(sql)).rejects.toMatchObject({ code: '42501' });
    }
  });
});
