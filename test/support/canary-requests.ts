import { expect } from 'vitest';
import { type Api, type ApiOptions, sampleApi } from '../integration/sample/api-harness.ts';
import { CLERK, logAccess, type Sinks } from './canary.ts';
import { fakeKms } from './keyring.ts';
import { leaksIn, textOf } from './leaks.ts';
import { type invoiceOrder, PERSONAL, sampleKeyring } from './sample.ts';
import type { SecondCluster } from './second-cluster.ts';

/** What an API is asked in the run of the canary, and where its answers go. */
export interface Requests {
  readonly cluster: SecondCluster;
  readonly sinks: Sinks;
  readonly api: Api;
  readonly options: ApiOptions;
  readonly order: ReturnType<typeof invoiceOrder>;
}

/** Every request that a person's data is in, right and wrong, also while keys and database refuse. */
export async function requestEverything({ cluster, sinks, api, options, order }: Requests): Promise<void> {
  const owner = cluster.pool('sealed_migrator');
  const pool = cluster.pool('sealed_api');
  const encoded = encodeURIComponent(PERSONAL.email);
  const keep = async (reply: Promise<unknown>): Promise<void> => void sinks['API answers'].push(textOf(await reply));

  // Appended, repeated, read, searched.
  const issued = await api.post('/invoices', order, { 'idempotency-key': 'canary' });
  expect(issued.status).toBe(201);
  const invoiceId = String(issued.body['id']);
  sinks['API answers'].push(textOf(issued));
  await keep(api.post('/invoices', order, { 'idempotency-key': 'canary' }));
  await keep(api.post('/invoices', { ...order, note: 'another' }, { 'idempotency-key': 'canary' }));
  await keep(api.call('GET', `/invoices/${invoiceId}`));
  await keep(api.post('/invoices/search', { email: PERSONAL.email.toUpperCase() }));
  const whole = await api.call('GET', `/invoices/${invoiceId}`, { signedBy: CLERK });
  expect(leaksIn({ whole: [textOf(whole)] }, Object.values(PERSONAL))).not.toEqual([]);

  // Refused by the API: values at wrong places, and in paths.
  const { customer } = order;
  const wrong = [
    { ...order, customer: { ...customer, taxId: `${PERSONAL.taxId}-${PERSONAL.iban}-and-more` } },
    { ...order, customer: { ...customer, email: PERSONAL.name } },
    { ...order, currency: PERSONAL.iban },
    { ...order, customerId: PERSONAL.email },
    { ...order, dueOn: PERSONAL.description },
    `${JSON.stringify(order)}${PERSONAL.name}`,
  ];
  for (const body of wrong) await keep(api.post('/invoices', body));
  for (const path of [
    `/invoices/${encoded}`,
    `/customers/${encoded}`,
    `/${encoded}/${PERSONAL.taxId}`,
    `/invoices/${invoiceId}/${encoded}`,
  ]) {
    await keep(api.call('GET', path));
    const route = path.startsWith('/invoices/') && path.split('/').length === 3 ? 'GET /invoices/{id}' : '$default';
    const event = {
      routeKey: route,
      rawPath: path,
      headers: {},
      isBase64Encoded: false,
      requestContext: { http: { method: 'GET' } },
    };
    logAccess(sinks, event, 404);
  }
  await keep(api.call('DELETE', `/customers/${encoded}`));
  await keep(api.post(`/invoices/${invoiceId}/payments`, { amountMinor: PERSONAL.taxId }));

  // Keys that cannot be reached, a database that refuses.
  for (const failure of ['SEALING_THROTTLED', 'SEALING_KEY_DISABLED', 'SEALING_DENIED'] as const) {
    const away = sampleApi(pool, { ...options, keyring: sampleKeyring(pool, Object.assign(fakeKms(), { failure })) });
    await keep(away.post('/invoices', order));
  }
  await owner.query(`alter table sample.invoice add constraint no_more check (due_on is null) not valid`);
  const refusedByDatabase = await api.post('/invoices', order);
  expect(refusedByDatabase.status).toBe(500);
  sinks['API answers'].push(textOf(refusedByDatabase));
  await owner.query('alter table sample.invoice drop constraint no_more');
}
