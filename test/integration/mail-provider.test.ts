import { describe, expect, it, vi } from 'vitest';
import { providerPerTest } from '../support/mail-delivery.ts';

const provider = providerPerTest();
const MAIL = { to: 'a@b.invalid', subject: 's', text: 't', reference: 'r' };

const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(`${provider.current.url}${path}`, { method: 'POST', body: JSON.stringify(body), headers });
const send = (key: string, mail: object = MAIL, headers: Record<string, string> = {}) =>
  post('/mails', mail, { 'idempotency-key': key, ...headers });
const get = async (path: string) => {
  const response = await fetch(`${provider.current.url}${path}`);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
};

describe('the local mail provider', () => {
  it('sends once for a key, answers a repeat as the first time, and refuses the key for another mail', async () => {
    const first = await send('k');
    const second = await send('k');
    const third = await send('k', { ...MAIL, subject: 'other' });
    expect([first.status, second.status, third.status]).toEqual([201, 200, 422]);
    expect(await second.json()).toEqual(await first.json());
    expect(second.headers.get('idempotency-replayed')).toBe('true');
    expect(provider.current.mails()).toHaveLength(1);
  });

  it('lists what it sent and finds it by its key', async () => {
    await send('k');
    const [mail] = provider.current.mails();
    expect(await get('/mails')).toEqual({ status: 200, body: { mails: [mail] } });
    expect(await get('/mails?idempotency-key=k')).toEqual({ status: 200, body: mail });
    expect(await get('/mails?idempotency-key=other')).toMatchObject({ status: 404 });
  });

  it.each([{ ...MAIL, to: 'nobody' }, { to: MAIL.to }, [], 'text'])(
    'takes nothing that is no mail: %j',
    async (mail) => {
      expect((await send('k', mail as object)).status).toBe(400);
      expect((await post('/mails', MAIL)).status).toBe(400);
      expect(provider.current.mails()).toEqual([]);
    },
  );

  it.each([
    ['fail', 500, 0],
    ['refuse', 422, 0],
  ] as const)('meets %s on demand, once, by header or by plan', async (fault, status, sent) => {
    expect((await send('k', MAIL, { 'x-fault': fault })).status).toBe(status);
    expect((await post('/admin/faults', { faults: [fault] })).status).toBe(200);
    expect((await send('k')).status).toBe(status);
    expect(provider.current.mails()).toHaveLength(sent);
    expect((await send('k')).status).toBe(201);
  });

  it('cuts the connection after it has acted, on demand', async () => {
    await expect(send('k', MAIL, { 'x-fault': 'act-and-drop' })).rejects.toThrow();
    expect(provider.current.mails()).toHaveLength(1);
  });

  it('acts late on demand, also when nobody listens any more', async () => {
    const giveUp = new AbortController();
    const late = fetch(`${provider.current.url}/mails`, {
      method: 'POST',
      body: JSON.stringify(MAIL),
      headers: { 'idempotency-key': 'k', 'x-fault': 'late' },
      signal: giveUp.signal,
    });
    const ended = expect(late).rejects.toThrow();
    await vi.waitUntil(() => provider.current.requests().length === 1);
    giveUp.abort();
    await ended;
    expect(provider.current.mails()).toEqual([]);
    expect(await (await post('/admin/release', {})).json()).toEqual({ released: 1 });
    await vi.waitUntil(() => provider.current.mails().length === 1);
  });

  it('refuses a fault that it does not know, and a path', async () => {
    expect((await post('/admin/faults', { faults: ['explode'] })).status).toBe(400);
    expect((await get('/nowhere')).status).toBe(404);
  });
});
