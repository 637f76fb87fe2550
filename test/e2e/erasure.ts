import { randomUUID } from 'node:crypto';
import { InvokeCommand, type LambdaClient } from '@aws-sdk/client-lambda';
import { describe, expect, it } from 'vitest';
import { CLERK } from '../../local/check/personal-data.ts';
import { invoiceBody, postJson } from '../../local/check/traffic.ts';
import type { LocalCloud } from '../../local/cloud.ts';
import { asSuperuser } from '../../local/postgres.ts';
import { until } from './until.ts';
import { command } from './watching.ts';

interface Customer {
  readonly id: string;
  readonly email: string;
  readonly invoice: string;
}

/** Searching for customers, erasing them and rotating their keys. The last tests of a cloud: that somebody was erased goes to one consumer only, and the others' checks wait for all. */
export function erasureTests(cloud: LocalCloud, lambda: LambdaClient): void {
  const { apiUrl, outputs } = cloud;
  const rows = async (sql: string, ...values: unknown[]) =>
    asSuperuser(cloud.database, cloud.database.name, async (db) => (await db.query(sql, values)).rows);
  const one = async (sql: string, ...values: unknown[]) => (await rows(sql, ...values))[0] as Record<string, unknown>;

  const customer = async (): Promise<Customer> => {
    const order = invoiceBody(1) as { customerId: string; customer: object };
    const email = `Işıl.${randomUUID()}@erasure.example`;
    const answer = await postJson(`${apiUrl}/invoices`, randomUUID(), {
      ...order,
      customer: { ...order.customer, email },
    });
    expect(answer.status).toBe(201);
    return { id: order.customerId, email, invoice: String(answer.body['id']) };
  };
  const found = async ({ email }: Customer): Promise<unknown[]> => {
    const answer = await postJson(`${apiUrl}/invoices/search`, randomUUID(), { email: email.toUpperCase() });
    expect(answer.status).toBe(200);
    return (answer.body['invoices'] as { id: string }[]).map(({ id }) => id);
  };
  const shown = async ({ invoice }: Customer): Promise<Record<string, Record<string, unknown>>> =>
    (await fetch(`${apiUrl}/invoices/${invoice}`, { headers: CLERK })).json() as never;
  const mailedTo = async ({ invoice }: Customer): Promise<unknown> =>
    (await one('select recipient from sample.notification where invoice_id = $1', invoice))?.['recipient'];
  /** Consumers have what they keep of the person. */
  const isKnownEverywhere = (of: Customer): Promise<unknown> =>
    until('the mail is sent and its recipient noted', async () => (await mailedTo(of)) ?? undefined, 30_000);
  const isGoneEverywhere = async (of: Customer): Promise<void> => {
    expect(await found(of)).toEqual([]);
    const { customer: seen, withheld } = await shown(of);
    expect(seen).toMatchObject({ name: null, email: null, address: null });
    expect(withheld).toContainEqual({ pointer: '/customer/email', because: 'erased' });
    await until(
      'notifications forget the recipient',
      async () => ((await mailedTo(of)) === null ? true : undefined),
      30_000,
    );
    // Sealed, the ledger keeps the name; nothing opens it any more.
    const { open } = await one(
      `select count(*)::integer as open from vault.subject_key where subject_id = $1 and wrapped is not null`,
      of.id,
    );
    expect(open).toBe(0);
  };

  describe('a customer', () => {
    it('is found by e-mail, and after DELETE /customers/{id} by nobody and nowhere', async () => {
      const [erased, other] = [await customer(), await customer()];
      expect(await found(erased)).toEqual([erased.invoice]);
      expect(await shown(erased)).toMatchObject({ customer: { email: erased.email } });
      await isKnownEverywhere(erased);
      const answer = await fetch(`${apiUrl}/customers/${erased.id}`, { method: 'DELETE' });
      expect(answer.status).toBe(200);
      expect(await answer.json()).toMatchObject({ outcome: 'done' });
      await isGoneEverywhere(erased);
      expect(await found(other)).toEqual([other.invoice]);
    });

    it('is erased by an operator likewise, and the audit keeps who and why, and not whom', async () => {
      const erased = await customer();
      await isKnownEverywhere(erased);
      const words = ['erase', 'customer', erased.id, '--reason', 'asked for by letter, DPO-7'];
      expect(await command('ops', ...words)).toMatchObject({ code: 2, stdout: '' });
      expect(await found(erased)).toEqual([erased.invoice]);
      const done = await command('ops', ...words, '--yes', '--json');
      expect(done.code, done.stderr).toBe(0);
      expect(JSON.parse(done.stdout)).toMatchObject({ ok: true, result: { outcome: 'done' } });
      await isGoneEverywhere(erased);
      const acts = await rows(`select * from outbox.operator_act where command in ('erase', 'erasures show')`);
      expect(acts.map((act) => (act as { command: string }).command)).toEqual(['erasures show', 'erase']);
      expect(JSON.stringify(acts)).not.toContain(erased.id);
    });
  });

  describe('keys', () => {
    it('are replaced by the janitor when an operator asks, and what they seal is found and opened as before', async () => {
      const standing = await customer();
      for (const words of [
        ['rotate', 'contact'],
        ['rotate-index', 'customer-email'],
      ]) {
        const asked = await command('ops', ...words, '--reason', 'may have become known, INC-7');
        expect(asked.code, asked.stderr).toBe(0);
      }
      const { FunctionError, Payload } = await lambda.send(
        new InvokeCommand({ FunctionName: outputs['JanitorFunctionName'], Payload: '{}' }),
      );
      expect(FunctionError, Buffer.from(Payload ?? []).toString()).toBeUndefined();
      const { stdout } = await command('ops', 'keys', 'list', '--json');
      const keys = (JSON.parse(stdout) as { result: { keys: Record<string, unknown>[] } }).result.keys;
      expect(keys.map(({ key, class: of, version, state }) => [key, of, version, state].join(' '))).toEqual(
        expect.arrayContaining([
          'branch contact 1 retired',
          'branch contact 2 active',
          'index customer-email contact 1 active',
          'index customer-email contact 2 next',
        ]),
      );
      expect(await found(standing)).toEqual([standing.invoice]);
      expect(await shown(standing)).toMatchObject({ customer: { email: standing.email } });
    });
  });
}
