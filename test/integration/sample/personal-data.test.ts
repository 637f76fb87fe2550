import { v7 } from 'uuid';
import { describe, expect, it, vi } from 'vitest';
import { catalogue } from '../../../functions/sample/catalogue/index.ts';
import {
  createKeyring,
  type Kms,
  type KmsContext,
  openData,
  postgresVault,
  sealedWith,
  type SealingErrorCode,
} from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { installSample, invoiceOrder, PERSONAL, sampleKeyring, sampleKms, spellings } from '../../support/sample.ts';
import { sampleApi } from './api-harness.ts';

const database = await testDatabase();
const owner = await database.client('sealed_migrator');
await installSample(owner);
const pool = database.pool('sealed_api', 1);
const CLERK = 'arn:aws:iam::111122223333:role/billing/Clerk';
const SESSION = 'arn:aws:sts::111122223333:assumed-role/Clerk/ada';
const callers = { seeClearValues: [CLERK] };
const api = sampleApi(pool, { callers });

const MASKED = {
  customer: {
    name: 'A••• K•••',
    email: 'a•••@•••.example',
    address: '•••',
    taxId: '•••47',
    iban: '•••4711',
  },
  note: '•••',
};
const { note, description, ...customer } = PERSONAL;
const CLEAR = { customer, note };
const PLACES = [
  ...Object.keys(MASKED.customer).map((field) => `/customer/${field}`),
  '/lines/0/description',
  '/lines/1/description',
  '/note',
];
const withheld = (because: string, places: readonly string[] = PLACES) =>
  places.map((pointer) => ({ pointer, because }));

async function issue(customerId: string = v7()): Promise<string> {
  const reply = await api.post('/invoices', invoiceOrder(customerId));
  expect(reply.status).toBe(201);
  return String(reply.body['id']);
}

const read = (id: string, signedBy?: string) =>
  api.call('GET', `/invoices/${id}`, signedBy === undefined ? {} : { signedBy });

/** As erasing does: the key of the person and class loses its bytes. */
async function eraseKeys(customerId: string, className = 'contact'): Promise<void> {
  await owner.query('update vault.subject_key set wrapped = null where subject_id = $1 and class = $2', [
    customerId,
    className,
  ]);
}

/** The file's KMS, with the classes of its calls. */
function countingKms(): Kms & { readonly classes: string[] } {
  const classes: string[] = [];
  const noting =
    <A extends readonly unknown[], R>(call: (...given: A) => R) =>
    (...given: A): R => {
      classes.push((given.at(-1) as KmsContext).class);
      return call(...given);
    };
  return {
    classes,
    generate: noting((context) => sampleKms.generate(context)),
    wrap: noting((plaintext, context) => sampleKms.wrap(plaintext, context)),
    unwrap: noting((key, context) => sampleKms.unwrap(key, context)),
  };
}

/** An API in another process: nothing is in its memory. */
const coldApi = (kms = sampleKms) => sampleApi(pool, { callers, keyring: sampleKeyring(pool, kms) });

describe('an invoice with personal data', () => {
  it('stands in no table in clear, and opens where it belongs', async () => {
    const id = await issue();
    const { rows: tables } = await owner.query(
      `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
        where table_schema in ('sample', 'outbox', 'inbox', 'vault') and table_type = 'BASE TABLE'`,
    );
    expect(tables.length).toBeGreaterThan(15);
    const superuser = await database.superuser();
    for (const { name } of tables) {
      const { rows } = await superuser.query(`select coalesce(string_agg(t::text, ' '), '') as text from ${name} t`);
      for (const spelling of spellings()) expect(rows[0].text, `${name} holds ${spelling}`).not.toContain(spelling);
    }
    const { rows } = await owner.query('select id, data from outbox.event where aggregate_id = $1', [id]);
    const { data, id: eventId } = rows[0];
    const { plan } = catalogue.sealed.get('invoice.issued/2')!;
    const keys = await sampleKeyring(pool).keysToOpen(sealedWith(data, plan));
    const place = {
      in: 'event',
      eventType: 'invoice.issued',
      aggregateType: 'invoice',
      aggregateId: id,
      eventId,
    } as const;
    expect(openData(data, plan, keys, place)).toMatchObject({
      ...CLEAR,
      lines: [{ description }, { description: 'Shipping' }],
    });
    expect(data).toMatchObject({
      customer: {
        name: expect.stringMatching(/^sealed\.1\.contact\./),
        taxId: expect.stringMatching(/^sealed\.1\.tax\./),
      },
    });
    expect(data.customer.iban).toMatch(/^sealed\.1\.bank\./);
  });

  it.each(['name', 'email', 'address', 'tax_id', 'iban'])('is refused in clear by the column %s', async (column) => {
    const client = await database.client('sealed_api');
    for (const text of ['Ada', 'sealed.1.contact', 'sealed.1.contact.x.1.y', 'erased.1 ']) {
      await expect(
        client.query(`insert into sample.customer (id, ${column}) values ($1, $2)`, [v7(), text]),
      ).rejects.toMatchObject({ code: '23514' });
    }
  });

  it('like case 46: asks the vault once and KMS once for each class, and neither again for the same customer', async () => {
    await issue();
    const kms = countingKms();
    const vault = postgresVault(pool);
    const reads = vi.spyOn(vault, 'read');
    const own = sampleApi(pool, { keyring: createKeyring({ name: 'sample', vault, kms }) });
    const customerId = v7();
    expect((await own.post('/invoices', invoiceOrder(customerId))).status).toBe(201);
    expect(kms.classes.toSorted()).toEqual(['bank', 'contact', 'tax']);
    expect(reads).toHaveBeenCalledOnce();
    expect((await own.post('/invoices', invoiceOrder(customerId))).status).toBe(201);
    expect(reads).toHaveBeenCalledOnce();
    expect((await own.post('/invoices', invoiceOrder(v7()))).status).toBe(201);
    expect(reads).toHaveBeenCalledTimes(2);
    expect(kms.classes).toHaveLength(3);
  });

  it('like case 45: leaves keys behind when it rolls back, and the next invoice of that customer opens', async () => {
    const customerId = v7();
    const tooMuch = invoiceOrder(customerId, Number.MAX_SAFE_INTEGER);
    expect((await api.post('/invoices', tooMuch)).status).toBe(400);
    const id = await issue(customerId);
    const reply = await coldApi().call('GET', `/invoices/${id}`, { signedBy: SESSION });
    expect(reply.body).toMatchObject({ ...CLEAR, withheld: [] });
  });
});

describe('GET /invoices/{id}', () => {
  it('masks personal values, and says which', async () => {
    const reply = await read(await issue());
    expect(reply.body).toMatchObject({ ...MASKED, withheld: withheld('masked') });
    expect(reply.body['lines']).toMatchObject([{ description: '•••', quantity: 2 }, { description: '•••' }]);
    for (const value of Object.values(PERSONAL)) expect(JSON.stringify(reply.body)).not.toContain(value);
  });

  it('shows them whole to the principals that are named, and to no other', async () => {
    const id = await issue();
    const whole = await read(id, SESSION);
    expect(whole.body).toMatchObject({ ...CLEAR, withheld: [] });
    expect(whole.body['lines']).toMatchObject([{ description }, { description: 'Shipping' }]);
    for (const other of ['arn:aws:sts::111122223333:assumed-role/Guest/ada', 'arn:aws:iam::444455556666:user/Clerk']) {
      expect((await read(id, other)).body).toMatchObject(MASKED);
    }
  });

  it('believes a header only where it is told to, and a signature before it', async () => {
    const id = await issue();
    const headers = { 'x-local-principal': CLERK };
    const local = sampleApi(pool, { callers: { ...callers, localHeader: 'x-local-principal' } });
    expect((await api.call('GET', `/invoices/${id}`, { headers })).body).toMatchObject(MASKED);
    expect((await local.call('GET', `/invoices/${id}`, { headers })).body).toMatchObject(CLEAR);
    const guest = { headers, signedBy: 'arn:aws:iam::111122223333:user/guest' };
    expect((await local.call('GET', `/invoices/${id}`, guest)).body).toMatchObject(MASKED);
  });

  it("shows the customer's newest details, whichever invoice named them", async () => {
    const customerId = v7();
    const id = await issue(customerId);
    const renamed = { ...invoiceOrder(customerId), customer: { ...customer, name: 'Ada King', taxId: undefined } };
    await api.post('/invoices', renamed);
    expect((await read(id, SESSION)).body).toMatchObject({ customer: { name: 'Ada King', taxId: null } });
  });

  it('shows what was never given as null, without a reason', async () => {
    const { note: _note, ...order } = invoiceOrder(v7());
    const { name, email, address } = customer;
    const { body } = await api.post('/invoices', { ...order, customer: { name, email, address } });
    const reply = await read(String(body['id']));
    expect(reply.body).toMatchObject({ customer: { taxId: null, iban: null }, note: null });
    const missing = new Set(['/customer/taxId', '/customer/iban', '/note']);
    expect(reply.body['withheld']).toEqual(
      withheld(
        'masked',
        PLACES.filter((place) => !missing.has(place)),
      ),
    );
  });

  it('like case 48: says of an erased person that it was erased, to everybody, and keeps the rest', async () => {
    const customerId = v7();
    const id = await issue(customerId);
    await eraseKeys(customerId);
    const erased = PLACES.filter((place) => !['/customer/taxId', '/customer/iban'].includes(place));
    const reply = await coldApi().call('GET', `/invoices/${id}`, { signedBy: SESSION });
    expect(reply).toMatchObject({
      status: 200,
      body: { customer: { name: null, email: null, taxId: customer.taxId }, note: null, totalMinor: 3000 },
    });
    expect(reply.body['withheld']).toEqual(withheld('erased', erased));
    // What erasing takes out of the row is told from what was never there.
    await owner.query('update sample.customer set name = null, email = null, address = null where id = $1', [
      customerId,
    ]);
    const emptied = await coldApi().call('GET', `/invoices/${id}`);
    expect(emptied.body['withheld']).toEqual(expect.arrayContaining(withheld('erased', erased)));
  });

  it('says of a class that the service may not open that it is closed', async () => {
    const id = await issue();
    await owner.query(`select vault.set_access('sealed_api', '{}', '{contact,tax}')`);
    try {
      const reply = await coldApi().call('GET', `/invoices/${id}`, { signedBy: SESSION });
      expect(reply.body).toMatchObject({ customer: { ...customer, iban: null } });
      expect(reply.body['withheld']).toEqual(withheld('closed', ['/customer/iban']));
    } finally {
      await installSample(owner);
    }
  });

  it('shows invoices from before, which hold their descriptions in clear and name no customer', async () => {
    const id = v7();
    await owner.query(
      `insert into sample.invoice (id, customer_id, currency, total_minor, lines, due_on)
       values ($1, $2, 'EUR', 100, '[{"description": "Translation", "quantity": 1, "unitPriceMinor": 100}]', '2026-12-31')`,
      [id, v7()],
    );
    expect((await read(id)).body).toMatchObject({
      customer: { name: null },
      lines: [{ description: '•••', quantity: 1 }],
      withheld: withheld('masked', ['/lines/0/description']),
    });
    expect((await read(id, SESSION)).body).toMatchObject({ lines: [{ description: 'Translation' }], withheld: [] });
  });

  it('like case 40: opens no value that was put into another row or column', async () => {
    const [one, other] = [v7(), v7()];
    const id = await issue(one);
    await issue(other);
    const failing = async () => {
      const reply = await read(id);
      expect(reply).toMatchObject({ status: 500, body: { type: '/problems/internal' } });
      expect(api.log.at(-1)).toContain('SEALING_TAMPERED');
    };
    await owner.query(
      'update sample.customer set name = (select name from sample.customer where id = $2) where id = $1',
      [one, other],
    );
    await failing();
    await owner.query('update sample.customer set name = email where id = $1', [one]);
    await failing();
    await owner.query('update sample.customer set name = iban where id = $1', [one]);
    expect((await read(id)).status).toBe(500);
    expect(api.log.at(-1)).toContain('SEALING_MALFORMED');
  });
});

describe('the kept answer of a request', () => {
  it('is masked for everybody, sealed, and the same for a repeat from another process', async () => {
    const key = v7();
    const order = invoiceOrder(v7());
    const first = await api.call('POST', '/invoices', {
      body: order,
      headers: { 'content-type': 'application/json', 'idempotency-key': key },
      signedBy: SESSION,
    });
    expect(first.body).toMatchObject(MASKED);
    const { rows } = await owner.query('select body, sealed_answer from sample.idempotency where key = $1', [key]);
    expect(rows).toEqual([{ body: null, sealed_answer: expect.stringMatching(/^sealed\.1\.contact\./) as string }]);
    const repeat = await coldApi().post('/invoices', order, { 'idempotency-key': key });
    expect(repeat).toEqual({ ...first, headers: { ...first.headers, 'idempotency-replayed': 'true' } });
  });

  it('has no hash in clear that would tell a short value of the request', async () => {
    const hashOf = async (taxId: string) => {
      const key = v7();
      const order = invoiceOrder('3f0f6a52-8f0c-4a77-9e35-2f4cf7b7a0aa');
      await api.post('/invoices', { ...order, customer: { ...customer, taxId } }, { 'idempotency-key': key });
      const { rows } = await owner.query('select request_sha256 from sample.idempotency where key = $1', [key]);
      return (rows[0].request_sha256 as Buffer).toString('hex');
    };
    expect(await hashOf('1111111111')).toBe(await hashOf('2222222222'));
  });

  it('belongs to its request: one that differs in a personal value is refused', async () => {
    const headers = { 'idempotency-key': v7() };
    const order = invoiceOrder(v7());
    await api.post('/invoices', order, headers);
    const changed = await api.post('/invoices', { ...order, note: 'another' }, headers);
    expect(changed).toMatchObject({ status: 409, body: { type: '/problems/idempotency-key-reused' } });
  });

  it('that an older deployment kept in clear is found again', async () => {
    const key = v7();
    const order = invoiceOrder(v7());
    const body = JSON.stringify(order);
    await owner.query(
      `insert into sample.idempotency (key, request_sha256, status, location, body)
       values ($1, sha256(convert_to(E'POST /invoices\\n' || $2, 'UTF8')), 201, '/invoices/old', $3)`,
      [key, body, JSON.stringify((await api.post('/invoices', order)).body)],
    );
    const repeat = await api.post('/invoices', body, { 'idempotency-key': key });
    expect(repeat).toMatchObject({
      status: 201,
      headers: { location: '/invoices/old', 'idempotency-replayed': 'true' },
    });
  });

  it('goes with the person: a repeat is told where the invoice is, and a new one is refused', async () => {
    const customerId = v7();
    const headers = { 'idempotency-key': v7() };
    const first = await api.post('/invoices', invoiceOrder(customerId), headers);
    await eraseKeys(customerId);
    const cold = coldApi();
    const repeat = await cold.post('/invoices', invoiceOrder(customerId), headers);
    expect(repeat).toMatchObject({
      status: 410,
      headers: { location: first.headers['location'] },
      body: { type: '/problems/answer-erased' },
    });
    const another = await cold.post('/invoices', invoiceOrder(customerId));
    expect(another).toMatchObject({ status: 409, body: { type: '/problems/customer-erased' } });
  });
});

describe('when keys cannot be loaded', () => {
  const failing = (code: SealingErrorCode) => Object.assign(fakeKms(), { failure: code });

  it.each<[SealingErrorCode, string]>([
    ['SEALING_THROTTLED', '5'],
    ['SEALING_UNAVAILABLE', '5'],
    ['SEALING_KEY_DISABLED', '60'],
  ])('%s: asks the caller to come back, and writes nothing', async (code, retryAfter) => {
    const id = await issue();
    const key = v7();
    const away = coldApi(failing(code));
    const replies = [
      await away.post('/invoices', invoiceOrder(v7()), { 'idempotency-key': key }),
      await away.call('GET', `/invoices/${id}`),
    ];
    for (const reply of replies) {
      expect(reply).toMatchObject({
        status: 503,
        headers: { 'retry-after': retryAfter },
        body: { type: '/problems/unavailable' },
      });
    }
    expect((await owner.query('select from sample.idempotency where key = $1', [key])).rowCount).toBe(0);
    expect(away.log.join('')).toContain(code);
    expect((await api.post('/invoices', invoiceOrder(v7()), { 'idempotency-key': key })).status).toBe(201);
  });

  it.each<SealingErrorCode>([
    'SEALING_DENIED',
    'SEALING_KEY_UNKNOWN',
    'SEALING_TAMPERED',
    'SEALING_MALFORMED',
    'SEALING_LIMIT',
  ])('%s: says that it is broken, logs the code and no value', async (code) => {
    const id = await issue();
    const broken = coldApi(failing(code));
    const replies = [await broken.post('/invoices', invoiceOrder(v7())), await broken.call('GET', `/invoices/${id}`)];
    for (const reply of replies) expect(reply).toMatchObject({ status: 500, body: { type: '/problems/internal' } });
    expect(broken.log).toHaveLength(2);
    for (const line of broken.log) expect(line).toContain(code);
    for (const spelling of spellings()) expect(JSON.stringify([replies, broken.log])).not.toContain(spelling);
  });

  it('payments go on: they hold nothing personal', async () => {
    const id = await issue();
    const away = coldApi(failing('SEALING_UNAVAILABLE'));
    expect((await away.post(`/invoices/${id}/payments`, { amountMinor: 1 })).status).toBe(201);
  });
});

it('answers of problems and the log name places, and no value', async () => {
  const { taxId } = PERSONAL;
  const wrong = { ...customer, name: '', email: taxId, address: '\u0007', taxId: `x${taxId}`, iban: PERSONAL.note };
  const reply = await api.post('/invoices', { ...invoiceOrder(v7()), customer: wrong, note: 4711 });
  expect(reply.status).toBe(400);
  const pointers = (reply.body['errors'] as { pointer: string }[]).map(({ pointer }) => pointer);
  expect(new Set(pointers)).toEqual(
    new Set(['name', 'email', 'address', 'taxId', 'iban'].map((it) => `/customer/${it}`).concat('/note')),
  );
  for (const spelling of spellings()) expect(JSON.stringify([reply, api.log])).not.toContain(spelling);
});
