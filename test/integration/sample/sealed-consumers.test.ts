import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { catalogue } from '../../../functions/sample/catalogue/index.ts';
import { namingHandlers } from '../../../functions/sample/ledger/handlers.ts';
import { notificationHandlers } from '../../../functions/sample/notifications/handlers.ts';
import { mailClient } from '../../../functions/sample/notifications/mail-client.ts';
import { transaction } from '../../../shared/database/index.ts';
import { buildEnvelope } from '../../../shared/events/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { createOutbox } from '../../../shared/outbox/index.ts';
import { openValue, parseSealed, type RowContext } from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { providerPerTest } from '../../support/mail-delivery.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';
import { installSample, invoiceOrder, PERSONAL, sampleKeyring, spellings } from '../../support/sample.ts';
import { fifoRecord, invoke, standardRecord } from '../../support/sqs-batch.ts';

const database = await testDatabase();
const owner = await database.client('sealed_migrator');
const api = database.pool('sealed_api', 1);
const provider = providerPerTest();
const writing = sampleKeyring(api);
const place = { store: 'ledger', table: 'sample.ledger_invoice', column: 'customer_name' };

beforeAll(() => installSample(owner));

/** An issued invoice as it stands in the outbox, and as a queue hands it out. */
async function issued(customerId: string = randomUUID(), keyring = writing) {
  const outbox = createOutbox({ catalogue, keyring });
  const invoiceId = randomUUID();
  const writer = await outbox.prepare({ subjects: [{ kind: 'customer', id: customerId }], types: ['invoice.issued'] });
  await transaction(api, (tx) =>
    writer.append(tx, [
      {
        type: 'invoice.issued',
        aggregate: { type: 'invoice', id: invoiceId },
        data: { invoiceId, totalMinor: 3000, ...invoiceOrder(customerId) },
      },
    ]),
  );
  const { rows } = await owner.query('select id, data::text from outbox.event where aggregate_id = $1', [invoiceId]);
  const envelope = buildEnvelope({
    id: rows[0].id,
    source: '/invoices',
    type: 'invoice.issued',
    schemaVersion: 2,
    aggregateType: 'invoice',
    aggregateId: invoiceId,
    sequence: 1n,
    occurredAt: new Date().toISOString(),
    data: rows[0].data,
    metadata: null,
  });
  return { invoiceId, customerId, eventId: rows[0].id as string, envelope };
}

async function erase(customerId: string): Promise<void> {
  await owner.query('update vault.subject_key set wrapped = null where subject_id = $1', [customerId]);
}

/** A value of a row, read by whoever has the keys. */
async function opened(text: string, context: Omit<RowContext, 'in'>): Promise<unknown> {
  const name = parseSealed(text)!.key;
  const key = (await writing.keysToOpen([name]))(name);
  if (typeof key !== 'object') throw new Error(`the key is ${key}`);
  return openValue(text, key, { in: 'row', ...context });
}

const observed = () => ({ log: recordingLog(), metrics: recordingMetrics() });

describe('the ledger', () => {
  const consumer = (kms?: ReturnType<typeof fakeKms>) => {
    const pool = database.pool('sealed_ledger', 2);
    const more = observed();
    const handler = eventConsumer({
      name: 'ledger',
      mode: 'strict',
      startingPoint: 'beginning',
      destination: 'ledger',
      catalogue,
      handlers: namingHandlers(sampleKeyring(pool, kms)),
      pool,
      ...more,
    });
    return { handler, ...more };
  };
  const nameOf = async (invoiceId: string): Promise<unknown> => {
    const { rows } = await owner.query('select customer_name from sample.ledger_invoice where invoice_id = $1', [
      invoiceId,
    ]);
    return rows[0]?.customer_name;
  };

  it("keeps the customer's name sealed for its own row, without opening it", async () => {
    const { invoiceId, envelope, eventId } = await issued();
    const { handler } = consumer();
    expect(await invoke(handler, [fifoRecord(invoiceId, envelope)])).toEqual([]);
    const text = String(await nameOf(invoiceId));
    expect(await opened(text, { ...place, primaryKey: invoiceId })).toBe(PERSONAL.name);
    await expect(opened(text, { ...place, primaryKey: eventId })).rejects.toMatchObject({ code: 'SEALING_TAMPERED' });
  });

  it('like case 48: keeps of an erased customer that it was erased, before the event was written or after', async () => {
    const before = await issued();
    await erase(before.customerId);
    const after = await issued(before.customerId, sampleKeyring(api));
    expect(after.envelope).toContain('"erased.1"');
    const { handler } = consumer();
    for (const { invoiceId, envelope } of [before, after]) {
      expect(await invoke(handler, [fifoRecord(invoiceId, envelope)])).toEqual([]);
      expect(await nameOf(invoiceId)).toBe('erased.1');
    }
  });

  it('like case 47: waits where keys cannot be reached, and goes on when they can', async () => {
    const { invoiceId, envelope } = await issued();
    const record = fifoRecord(invoiceId, envelope);
    const away = consumer(Object.assign(fakeKms(), { failure: 'SEALING_THROTTLED' as const }));
    expect(await invoke(away.handler, [record])).toEqual([record.messageId]);
    expect(away.log.lines).toMatchObject([{ fields: { class: 'retry', code: 'SEALING_THROTTLED' } }]);
    expect(await invoke(consumer().handler, [record])).toEqual([]);
    expect(await nameOf(invoiceId)).toMatch(/^sealed\.1\.contact\./);
  });
});

describe('notifications', () => {
  const consumer = () => {
    const pool = database.pool('sealed_notifications', 2);
    const keyring = sampleKeyring(pool);
    const more = observed();
    const handler = eventConsumer({
      name: 'notifications',
      mode: 'any',
      catalogue,
      handlers: notificationHandlers(mailClient(provider.current.url), keyring),
      keyring,
      opens: ['contact'],
      pool,
      ...more,
    });
    return { handler, ...more };
  };
  const kept = async (eventId: string) => {
    const calls = await owner.query('select response::text as text from inbox.external_call where event_id = $1', [
      eventId,
    ]);
    const notes = await owner.query('select recipient, mail_id from sample.notification where event_id = $1', [
      eventId,
    ]);
    return { calls: calls.rows, notes: notes.rows };
  };

  it('write to the customer by name, and keep the address sealed in the recorded answer and in the note', async () => {
    const { envelope, eventId, invoiceId } = await issued();
    const { handler } = consumer();
    expect(await invoke(handler, [standardRecord(envelope)])).toEqual([]);
    expect(provider.current.mails()).toMatchObject([
      { to: PERSONAL.email, text: expect.stringContaining(`Dear ${PERSONAL.name},`), reference: invoiceId },
    ]);
    const { calls, notes } = await kept(eventId);
    const recorded = JSON.parse(calls[0].text) as { id: string; to: string };
    expect(notes).toEqual([{ mail_id: recorded.id, recipient: expect.any(String) as string }]);
    const at = { store: 'notifications', primaryKey: eventId };
    expect(await opened(recorded.to, { ...at, table: 'inbox.external_call', column: 'to' })).toBe(PERSONAL.email);
    expect(await opened(notes[0].recipient, { ...at, table: 'sample.notification', column: 'recipient' })).toBe(
      PERSONAL.email,
    );
    for (const spelling of spellings()) expect(JSON.stringify([calls, notes])).not.toContain(spelling);
  });

  it('write to nobody who was erased', async () => {
    const { envelope, customerId, eventId } = await issued();
    await erase(customerId);
    const { handler, metrics } = consumer();
    expect(await invoke(handler, [standardRecord(envelope)])).toEqual([]);
    expect(provider.current.mails()).toEqual([]);
    expect(await kept(eventId)).toEqual({ calls: [], notes: [] });
    expect(metrics.sum('Effects')).toBe(1);
  });

  it('say nothing of a person where a mail is refused', async () => {
    const { envelope } = await issued();
    provider.current.plan('refuse');
    const { handler, log } = consumer();
    expect(await invoke(handler, [standardRecord(envelope)])).toHaveLength(1);
    for (const spelling of spellings()) expect(JSON.stringify(log.lines)).not.toContain(spelling);
  });
});
