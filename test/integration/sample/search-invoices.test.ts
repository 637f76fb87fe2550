import { v7 } from 'uuid';
import { describe, expect, it } from 'vitest';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { installSample, invoiceOrder, PERSONAL, sampleKeyring, spellings } from '../../support/sample.ts';
import { sampleApi } from './api-harness.ts';

const database = await testDatabase();
const owner = await database.client('sealed_migrator');
await installSample(owner);
const pool = database.pool('sealed_api', 1);
const CLERK = 'arn:aws:iam::111122223333:user/clerk';
const api = sampleApi(pool, { callers: { seeClearValues: [CLERK] } });

/** An invoice of a customer with this e-mail. */
async function issue(email: string, customerId: string = v7()): Promise<string> {
  const order = invoiceOrder(customerId);
  const reply = await api.post('/invoices', { ...order, customer: { ...order.customer, email } });
  expect(reply.status).toBe(201);
  return String(reply.body['id']);
}

const search = (email: string, more: Record<string, unknown> = {}, of = api) =>
  of.post('/invoices/search', { email, ...more });

async function found(email: string, more?: Record<string, unknown>): Promise<string[]> {
  const reply = await search(email, more);
  expect(reply.status).toBe(200);
  return (reply.body['invoices'] as { id: string }[]).map(({ id }) => id);
}

describe('POST /invoices/search', () => {
  it('finds the invoices of all customers with an e-mail, newest first, and of nobody else', async () => {
    const customerId = v7();
    const first = await issue('two@search.example', customerId);
    const second = await issue('two@search.example', customerId);
    const other = await issue('two@search.example');
    await issue('someone.else@search.example');
    expect(await found('two@search.example')).toEqual([other, second, first]);
    expect(await found('nobody@search.example')).toEqual([]);
    expect(await found('   ')).toEqual([]);
  });

  it.each([
    'İPEK.IŞIK@SEARCH.EXAMPLE',
    ' ipek.ışık@search.example ',
    'ｉｐｅｋ.ışık@search.example',
    'i\u0307pek.ıs\u0327ık@Search.Example',
  ])('finds them by the spelling %j', async (spelling) => {
    const id = await issue('İpek.Işık@search.example');
    expect(await found(spelling)).toContain(id);
  });

  it('answers in pages', async () => {
    const ids = [];
    for (let n = 0; n < 3; n += 1) ids.unshift(await issue('pages@search.example'));
    const page = await search('pages@search.example', { limit: 2 });
    expect(page.body).toMatchObject({ invoices: [{ id: ids[0] }, { id: ids[1] }], next: ids[1] });
    const rest = await search('pages@search.example', { limit: 2, after: ids[1] });
    expect(rest.body).toMatchObject({ invoices: [{ id: ids[2] }], next: null });
  });

  it('masks what it finds, but for who may see it', async () => {
    await issue(PERSONAL.email);
    const masked = await search(PERSONAL.email);
    for (const spelling of spellings()) expect(JSON.stringify(masked.body)).not.toContain(spelling);
    const clear = await api.call('POST', '/invoices/search', {
      body: { email: PERSONAL.email },
      headers: { 'content-type': 'application/json' },
      signedBy: CLERK,
    });
    expect(clear.body).toMatchObject({ invoices: [{ customer: { email: PERSONAL.email, name: PERSONAL.name } }] });
  });

  it('finds a customer by the e-mail of today, not by an earlier one', async () => {
    const customerId = v7();
    const id = await issue('before@search.example', customerId);
    const later = await issue('after@search.example', customerId);
    expect(await found('before@search.example')).toEqual([]);
    expect(await found('after@search.example')).toEqual([later, id]);
  });

  it('does not believe an index value that somebody put beside another e-mail', async () => {
    const victim = v7();
    await issue('victim@search.example', victim);
    const planted = v7();
    await issue('planted@search.example', planted);
    await owner.query(
      'update sample.customer set email_index = (select email_index from sample.customer where id = $1) where id = $2',
      [victim, planted],
    );
    expect(await found('victim@search.example')).toHaveLength(1);
  });

  it.each<[string, unknown, string]>([
    ['no e-mail', {}, '/email'],
    ['an empty one', { email: '' }, '/email'],
    ['a long one', { email: 'a'.repeat(255) }, '/email'],
    ['a field beside it', { email: 'a@b', name: 'Ada' }, '/name'],
    ['too large a page', { email: 'a@b', limit: 101 }, '/limit'],
    ['a page after nothing', { email: 'a@b', after: 'x' }, '/after'],
  ])('refuses %s', async (_what, body, pointer) => {
    const reply = await api.post('/invoices/search', body);
    expect(reply).toMatchObject({ status: 400, body: { errors: [{ pointer }] } });
  });

  it('opens no crowd: more than 100 customers with one e-mail are refused', async () => {
    await issue('crowd@search.example');
    await owner.query(
      `insert into sample.customer (id, email, email_index)
       select gen_random_uuid(), email, email_index
         from (select email, email_index from sample.customer order by updated_at desc limit 1) c, generate_series(1, 100)`,
    );
    expect(await search('crowd@search.example')).toMatchObject({
      status: 400,
      body: { errors: [{ pointer: '/email' }] },
    });
  });

  it('asks the caller to come back where keys cannot be reached', async () => {
    await issue('away@search.example');
    const kms = Object.assign(fakeKms(), { failure: 'SEALING_UNAVAILABLE' as const });
    const away = sampleApi(pool, { keyring: sampleKeyring(pool, kms) });
    expect(await search('away@search.example', {}, away)).toMatchObject({
      status: 503,
      headers: { 'retry-after': '5' },
    });
    expect(JSON.stringify(away.log)).not.toContain('away@');
  });
});
