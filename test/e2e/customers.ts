import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import { CLERK } from '../../local/check/personal-data.ts';
import { invoiceBody, postJson } from '../../local/check/traffic.ts';
import type { LocalCloud } from '../../local/cloud.ts';
import { asSuperuser } from '../../local/postgres.ts';
import { until } from './until.ts';

export interface Customer {
  readonly id: string;
  readonly email: string;
  readonly invoice: string;
}

/** Customers of a cloud: making them, and what its API and its database know of them. */
export function customersOf(cloud: LocalCloud) {
  const { apiUrl } = cloud;
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
  /** The status that the API answers with. */
  const erase = async ({ id }: Customer): Promise<number> =>
    (await fetch(`${apiUrl}/customers/${id}`, { method: 'DELETE' })).status;
  return { rows, one, customer, isKnownEverywhere, mailedTo, found, shown, erase };
}
