import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import { catalogue } from '../../../functions/sample/catalogue/index.ts';
import { notificationHandlers } from '../../../functions/sample/notifications/handlers.ts';
import { mailClient } from '../../../functions/sample/notifications/mail-client.ts';
import { buildEnvelope } from '../../../shared/events/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import type { ErasureOptions } from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { providerPerTest } from '../../support/mail-delivery.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';
import {
  installSample,
  invoiceOrder,
  PERSONAL,
  sampleErasure,
  sampleErasureLog,
  sampleKeyring,
  spellings,
} from '../../support/sample.ts';
import { invoke, standardRecord } from '../../support/sqs-batch.ts';
import { sampleApi } from './api-harness.ts';

const database = await testDatabase();
const owner = await database.client('sealed_migrator');
await installSample(owner);
const pool = database.pool('sealed_api', 1);
const provider = providerPerTest();
const api = sampleApi(pool);
const CLERK = 'arn:aws:iam::111122223333:user/clerk';

/** An API in another process: nothing is in its memory. */
const coldApi = (more: Partial<ErasureOptions> = {}) =>
  sampleApi(pool, {
    callers: { seeClearValues: [CLERK] },
    keyring: sampleKeyring(pool),
    erasure: sampleErasure(pool, more),
  });

async function issue(customerId: string): Promise<string> {
  const reply = await api.post('/invoices', invoiceOrder(customerId));
  expect(reply.status).toBe(201);
  return String(reply.body['id']);
}

const erase = (customerId: string, by = api) => by.call('DELETE', `/customers/${customerId}`);

async function events(type: string, aggregateId: string) {
  const { rows } = await owner.query(
    `select e.id, e.data::text as data, array_agg(n.name::text) as destinations
       from outbox.event e join outbox.delivery d on d.event_id = e.id join outbox.destination n on n.number = d.destination
      where e.type = $1 and e.aggregate_id = $2
      group by e.id, e.sequence, e.data::text order by e.sequence`,
    [type, aggregateId],
  );
  return rows as { id: string; data: string; destinations: string[] }[];
}

/** What a queue hands out. */
async function delivered(type: 'invoice.issued' | 'person.erased', aggregateType: string, aggregateId: string) {
  const [event] = await events(type, aggregateId);
  return standardRecord(
    buildEnvelope({
      id: event!.id,
      source: '/invoices',
      type,
      schemaVersion: type === 'invoice.issued' ? 2 : 1,
      aggregateType,
      aggregateId,
      sequence: 1n,
      occurredAt: new Date().toISOString(),
      data: event!.data,
      metadata: null,
    }),
  );
}

const row = async (sql: string, id: string) => (await owner.query(sql, [id])).rows[0];

describe('DELETE /customers/{id}', () => {
  it('destroys what is asked for, keeps what the law has kept, and says until when', async () => {
    const customerId = v7();
    const id = await issue(customerId);
    const reply = await erase(customerId);
    const until = `${new Date().getUTCFullYear() + 1}-01-01T00:00:00.000Z`;
    const kept = new Date(Date.parse(until) + 3653 * 86_400_000).toISOString();
    expect(reply).toMatchObject({
      status: 200,
      body: {
        customerId,
        outcome: 'done',
        classes: [
          { class: 'bank', state: 'restricted', until: kept, keptUntil: null },
          { class: 'contact', state: 'erased', until: null, keptUntil: null },
          { class: 'tax', state: 'restricted', until: kept, keptUntil: null },
        ],
      },
    });
    expect(
      await row(
        'select name, email, email_index, address, tax_id, iban from sample.customer where id = $1',
        customerId,
      ),
    ).toEqual({
      name: null,
      email: null,
      email_index: null,
      address: null,
      // The law has them kept.
      tax_id: expect.stringMatching(/^sealed\.1\.tax\./),
      iban: expect.stringMatching(/^sealed\.1\.bank\./),
    });
    expect(await row('select note, descriptions from sample.invoice where id = $1', id)).toEqual({
      note: null,
      descriptions: null,
    });
    expect(await events('person.erased', customerId)).toMatchObject([{ destinations: ['notifications'] }]);

    const read = await coldApi().call('GET', `/invoices/${id}`, { signedBy: CLERK });
    for (const spelling of spellings()) expect(JSON.stringify(read.body)).not.toContain(spelling);
    expect(read.body['withheld']).toContainEqual({ pointer: '/customer/name', because: 'erased' });
    expect(read.body['withheld']).toContainEqual({ pointer: '/customer/taxId', because: 'erased' });
    const search = await coldApi().post('/invoices/search', { email: PERSONAL.email });
    expect(search.body).toEqual({ invoices: [], next: null });
    expect(await coldApi().post('/invoices', invoiceOrder(customerId))).toMatchObject({ status: 409 });
  });

  it('does it once, however often and by how many it is asked', async () => {
    const customerId = v7();
    await issue(customerId);
    const first = await erase(customerId);
    const twin = sampleApi(database.pool('sealed_api', 1), { erasure: sampleErasure(pool) });
    const replies = await Promise.all([erase(customerId), erase(customerId, twin), erase(customerId.toUpperCase())]);
    expect(replies.map(({ status, body }) => ({ status, body }))).toEqual(
      replies.map(() => ({ status: 200, body: first.body })),
    );
    expect(await events('person.erased', customerId)).toHaveLength(1);
  });

  it.each([v7(), 'me', `${v7()}x`])('knows no customer %s', async (id) => {
    expect(await erase(id)).toMatchObject({ status: 404, body: { detail: 'There is no customer with this id.' } });
  });

  it('leaves time to cancel where a delay is set', async () => {
    const customerId = v7();
    const id = await issue(customerId);
    const patient = coldApi({ delaySeconds: 3600 });
    const reply = await erase(customerId, patient);
    expect(reply).toMatchObject({ status: 202, body: { outcome: 'waiting' } });
    expect(reply.body['classes']).toContainEqual({
      class: 'contact',
      state: 'waiting',
      until: expect.any(String) as string,
      keptUntil: null,
    });
    const read = await patient.call('GET', `/invoices/${id}`, { signedBy: CLERK });
    expect(read.body).toMatchObject({ customer: { name: PERSONAL.name } });
    expect((await erase(customerId, patient)).body).toEqual(reply.body);
    expect(await events('person.erased', customerId)).toEqual([]);
  });

  it('asks the caller to come back where the log of erasures is away, and then goes on', async () => {
    const customerId = v7();
    await issue(customerId);
    const away = coldApi();
    sampleErasureLog.beforeCreate = async (name) => {
      if (name.startsWith('entry/')) throw new Error('the log is away');
    };
    expect(await erase(customerId, away)).toMatchObject({
      status: 503,
      headers: { 'retry-after': '5' },
      body: { detail: expect.stringContaining('is recorded') as string },
    });
    sampleErasureLog.beforeCreate = async () => {};
    expect(await erase(customerId, away)).toMatchObject({ status: 200, body: { outcome: 'done' } });
  });

  it('asks the caller to come back where a process that has just started cannot read the log; nothing is recorded', async () => {
    const customerId = v7();
    await issue(customerId);
    const cold = coldApi();
    sampleErasureLog.failure = Object.assign(new Error('the log is away'), { name: 'TimeoutError' });
    const away = await erase(customerId, cold);
    sampleErasureLog.failure = null;
    expect(away).toMatchObject({ status: 503, headers: { 'retry-after': '5' } });
    expect((await owner.query('select from vault.erasure_request where subject_id = $1', [customerId])).rowCount).toBe(
      0,
    );
    expect(await erase(customerId, cold)).toMatchObject({ status: 200, body: { outcome: 'done' } });
  });

  it("has notifications forget where its customer's mails went, and write no more", async () => {
    const customerId = v7();
    const id = await issue(customerId);
    const own = database.pool('sealed_notifications', 2);
    const keyring = sampleKeyring(own);
    const handler = eventConsumer({
      name: 'notifications',
      mode: 'any',
      catalogue,
      handlers: notificationHandlers(mailClient(provider.current.url), keyring),
      keyring,
      opens: ['contact'],
      pool: own,
      log: recordingLog(),
      metrics: recordingMetrics(),
    });
    const note = () => row('select recipient, customer_id from sample.notification where invoice_id = $1', id);
    expect(await invoke(handler, [await delivered('invoice.issued', 'invoice', id)])).toEqual([]);
    expect(await note()).toMatchObject({ recipient: expect.stringMatching(/^sealed\.1\./), customer_id: customerId });
    await erase(customerId);
    expect(await invoke(handler, [await delivered('person.erased', 'person', customerId)])).toEqual([]);
    expect(await note()).toEqual({ recipient: null, customer_id: customerId });
  });

  it('is not for logins that only read or write invoices', async () => {
    const ledger = await database.client('sealed_ledger');
    const refused = { code: '42501' };
    await expect(ledger.query('select name from sample.customer')).rejects.toMatchObject(refused);
    const notifications = await database.client('sealed_notifications');
    for (const statement of [
      'update sample.customer set name = null',
      'update sample.notification set mail_id = mail_id',
    ]) {
      await expect(notifications.query(statement)).rejects.toMatchObject(refused);
    }
    const bare = await database.client('sealed_eraser');
    await expect(bare.query('select name from sample.customer')).rejects.toMatchObject(refused);
  });
});
