import { v7 } from 'uuid';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { keptSince } from '../../../functions/erasure.ts';
import { openErasing } from '../../../functions/operator/erasing.ts';
import type { Tools } from '../../../functions/operator/run/tools.ts';
import { classes } from '../../../functions/sample/catalogue/classes.ts';
import { erasable } from '../../../functions/sample/catalogue/erasable.ts';
import { type ErasureOptions, takeRotationRequests } from '../../../shared/sealing/index.ts';
import { silentLog } from '../../../shared/telemetry/index.ts';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { testOperator } from '../../support/operator.ts';
import { recordingMetrics } from '../../support/recorders.ts';
import { installSample, invoiceOrder, sampleErasure, sampleErasureLog } from '../../support/sample.ts';
import { silentProxy } from '../../support/silent-proxy.ts';
import { sampleApi } from '../sample/api-harness.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
await installSample(owner);
await owner.query(`select vault.set_access('sealed_keeper', '{}', '{contact,tax,bank}');
                   select vault.set_index_access('sealed_keeper', '{"customer-email": "contact"}')`);
const api = sampleApi(database.pool('sealed_api', 1));
const pool = database.pool('sealed_erasing_operator', 1);
const metrics = recordingMetrics();

const erasing =
  (more: Partial<ErasureOptions> = {}): Tools['erasing'] =>
  async () => ({
    erasure: sampleErasure(pool, { metrics, ...more }),
    keptSince: (subject) => keptSince(pool, 'sample.kept_since', subject),
    ready: async () => {},
    close: async () => {},
  });
const operator = await testOperator(database, { erasing: erasing() }, 'sealed_erasing_operator');
beforeEach(() => {
  sampleErasureLog.failure = null;
});

/** A customer with an invoice. */
async function customer(): Promise<{ kind: string; id: string; invoice: string }> {
  const id = v7();
  const reply = await api.post('/invoices', invoiceOrder(id));
  expect(reply.status).toBe(201);
  return { kind: 'customer', id, invoice: String(reply.body['id']) };
}

describe('what erases', () => {
  it('like case 24: goes on where its idle connection has been forgotten on the way, and gives up one that dies in the middle', async () => {
    const config = database.config('sealed_erasing_operator');
    const proxy = await silentProxy(config.port);
    const person = await customer();
    vi.stubEnv('SEALING_VAULT', 'sample');
    vi.stubEnv('SEALING_KEY_ARN', 'arn:aws:kms:eu-central-1:111122223333:key/1');
    vi.stubEnv('SEALING_ERASURE_LOG', 'file:///nowhere');
    const opened = openErasing({ classes, erasable }, { ...config, port: proxy.port }, silentLog, 2_000);
    vi.unstubAllEnvs();
    expect(await opened.erasure.status(person)).toMatchObject({ outcome: 'open' });
    proxy.silence();
    await opened.ready();
    expect(await opened.erasure.status(person)).toMatchObject({ outcome: 'open' });
    proxy.silence();
    await expect(opened.erasure.status(person)).rejects.toThrow(/timeout/);
    expect(await opened.erasure.status(person)).toMatchObject({ outcome: 'open' });
    await opened.close();
  });
});

describe('erase', () => {
  it('does what DELETE /customers/{id} does: the same classes, kept until the same day', async () => {
    const { invoice, ...person } = await customer();
    const other = await customer();
    const before = await operator.done('erasures show', person);
    expect(before).toMatchObject({ outcome: 'open' });
    const { outcome, classes } = await operator.done('erase', person, 'asked for by letter, DPO-7');
    const { body } = await api.call('DELETE', `/customers/${other.id}`);
    expect({ outcome, classes }).toEqual({ outcome: body['outcome'], classes: body['classes'] });
    expect(classes).toMatchObject([
      { class: 'bank', state: 'restricted', until: expect.stringMatching(/^20\d\d-/) },
      { class: 'contact', state: 'erased', until: null },
      { class: 'tax', state: 'restricted' },
    ]);
    const view = await api.call('GET', `/invoices/${invoice}`);
    expect(view.body['customer']).toEqual((await api.call('GET', `/invoices/${other.invoice}`)).body['customer']);
    const { rows } = await owner.query('select name, email, email_index from sample.customer where id = $1', [
      person.id,
    ]);
    expect(rows).toEqual([{ name: null, email: null, email_index: null }]);
    expect(await operator.done('erase', person, 'again')).toEqual({ outcome, classes });
  });

  it('leaves who ordered it, why and what came of it, and nowhere whom it concerned', async () => {
    const { invoice: _, ...person } = await customer();
    await operator.done('erasures show', person);
    await operator.done('renew', { class: 'contact', ...person }, 'leaked, INC-7');
    await operator.done('erase', person, 'asked for by letter, DPO-7');
    for (const command of ['erasures cancel', 'erase'] as const) {
      await operator.call(command, { kind: 'customer', id: v7() }, 'nobody');
    }
    const { rows } = await owner.query('select * from outbox.operator_act order by number');
    expect(rows.slice(-4)).toMatchObject([
      { command: 'renew', arguments: { class: 'contact', kind: 'customer', id: '(not kept)' }, outcome: 'done' },
      { command: 'erase', arguments: { id: '(not kept)' }, outcome: 'done', detail: { outcome: 'done' } },
      { command: 'erasures cancel', outcome: 'refused', detail: { code: 'PERSON_UNKNOWN' } },
      { command: 'erase', outcome: 'refused', detail: { code: 'PERSON_UNKNOWN' } },
    ]);
    const { rows: audited } = await owner.query('select * from outbox.audit');
    expect(JSON.stringify([rows, audited, operator.log.lines])).not.toContain(person.id);
    expect(metrics.sum('ErasuresRequested')).toBeGreaterThan(0);
  });

  it('with a delay waits, is counted, and can be taken back until it is done', async () => {
    const slow = await testOperator(database, { erasing: erasing({ delaySeconds: 60 }) }, 'sealed_erasing_operator');
    const { invoice: _, ...person } = await customer();
    const { waiting } = await slow.done('erasures status');
    expect(await slow.done('erase', person, 'r')).toMatchObject({ outcome: 'waiting' });
    expect((await slow.done('erasures status'))['waiting']).toBe(Number(waiting) + 1);
    expect(await slow.done('erasures cancel', person, 'r')).toEqual({ cancelled: ['bank', 'contact', 'tax'] });
    expect(await slow.done('erasures show', person)).toMatchObject({ outcome: 'open' });
    expect(await slow.call('erasures cancel', person, 'r')).toMatchObject({
      outcome: 'refused',
      code: 'NOTHING_TO_CANCEL',
    });
  });

  it('says what is known where it fails: nothing was recorded, or it goes on by itself', async () => {
    const { invoice: _, ...person } = await customer();
    const away = Object.assign(fakeKms(), { failure: 'SEALING_UNAVAILABLE' as const });
    const cut = await testOperator(database, { erasing: erasing({ kms: away }) }, 'sealed_erasing_operator');
    expect(await cut.call('erase', person, 'r')).toMatchObject({ outcome: 'failed', code: 'SEALING_UNAVAILABLE' });
    expect(await operator.done('erasures show', person)).toMatchObject({ outcome: 'open' });
    sampleErasureLog.beforeCreate = async (name) => {
      if (name.startsWith('entry/')) sampleErasureLog.failure = new Error('the bucket is away');
    };
    const half = await operator.call('erase', person, 'r');
    sampleErasureLog.beforeCreate = () => Promise.resolve();
    sampleErasureLog.failure = null;
    expect(half).toMatchObject({
      outcome: 'failed',
      code: 'ERASURE_NOT_FINISHED',
      message: expect.stringContaining('the janitor goes on with it'),
    });
    expect(await operator.done('erase', person, 'r')).toMatchObject({ outcome: 'done' });
  });
});

describe('rotation', () => {
  it('is asked for, once, and the janitor hears of it', async () => {
    const { invoice: _, ...person } = await customer();
    expect(await operator.done('rotate', { class: 'contact' }, 'r')).toMatchObject({ requested: 'now' });
    expect(await operator.done('rotate', { class: 'contact' }, 'r')).toMatchObject({ requested: 'before' });
    await operator.done('rotate-index', { index: 'customer-email' }, 'r');
    await operator.done('renew', { class: 'tax', ...person, id: person.id.toUpperCase() }, 'r');
    const asked = await takeRotationRequests(database.pool('sealed_keeper', 1));
    expect(asked).toMatchObject({ rotate: ['contact'], rotateIndex: ['customer-email'] });
    expect(asked.renew).toContainEqual({ class: 'tax', subject: person });
    const { keys } = await operator.done('keys list');
    expect(keys).toContainEqual({
      key: 'branch',
      class: 'contact',
      version: 1,
      state: 'active',
      kmsKey: 'kms-key',
      ageSeconds: expect.any(Number),
      requestedSeconds: expect.any(Number),
    });
    expect(JSON.stringify(keys)).not.toContain(person.id);
  });

  it.each([
    ['rotate', { class: 'other' }],
    ['rotate-index', { index: 'other' }],
    ['renew', { class: 'contact', kind: 'customer', id: 'nobody' }],
  ] as const)('%s is refused where there is no such key', async (command, args) => {
    expect(await operator.call(command, args, 'r')).toMatchObject({ outcome: 'refused', code: 'SEALING_KEY_UNKNOWN' });
  });
});

describe('an operator without', () => {
  it.each([
    ['the vault', 'keys list', {}, undefined, 'VAULT_ELSEWHERE'],
    ['the vault', 'rotate', { class: 'contact' }, 'r', 'VAULT_ELSEWHERE'],
    ['erasures', 'erase', { kind: 'customer', id: 'C-1' }, 'r', 'ERASURE_ELSEWHERE'],
    ['erasures', 'erasures show', { kind: 'customer', id: 'C-1' }, undefined, 'ERASURE_ELSEWHERE'],
  ] as const)('%s refuses %s', async (_what, command, args, reason, code) => {
    const without = await testOperator(database, { vault: false });
    expect(await without.call(command, args, reason)).toMatchObject({ ok: false, outcome: 'refused', code });
  });

  it('the roles is denied them by the database', async () => {
    const plain = await testOperator(database, {
      erasing: async () => ({
        erasure: sampleErasure(database.pool('sealed_operator', 1)),
        keptSince: async () => undefined,
        ready: async () => {},
        close: async () => {},
      }),
    });
    expect(await plain.call('rotate', { class: 'contact' }, 'r')).toMatchObject({ code: 'SEALING_DENIED' });
    const { invoice: _, ...person } = await customer();
    expect(await plain.call('erase', person, 'r')).toMatchObject({ outcome: 'failed', code: 'OPERATION_FAILED' });
    expect(await operator.done('erasures show', person)).toMatchObject({ outcome: 'open' });
  });
});
