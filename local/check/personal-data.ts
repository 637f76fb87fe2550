import type { Queryable } from '../../shared/database/index.ts';
import { CUSTOMER, MARKER } from './traffic.ts';

/** Who sees personal values whole, as the local deployment says; the header takes the place of a signature. */
export const CLERK = { 'x-local-principal': 'arn:aws:iam::000000000000:role/clerk' };

/**
 * Looks for the personal values of the traffic where they must not be: in any table, and in what the API shows to whoever comes along. One
 * sentence for each place; also where the caller who may see them does not.
 */
export async function exposures(db: Queryable, apiUrl: string, invoiceId: string | undefined): Promise<string[]> {
  const { rows } = await db.query(
    `select format('%I.%I', table_schema, table_name) as name from information_schema.tables
      where table_schema in ('sample', 'outbox', 'inbox', 'vault') and table_type = 'BASE TABLE'`,
  );
  const found: string[] = [];
  for (const { name } of rows as readonly { readonly name: string }[]) {
    const clear = await db.query(`select from ${name} t where strpos(t::text, $1) > 0 limit 1`, [MARKER]);
    if (clear.rowCount !== 0) found.push(`${name} holds personal data in clear`);
  }
  return invoiceId === undefined ? found : [...found, ...(await shownWrongly(`${apiUrl}/invoices/${invoiceId}`))];
}

async function shownWrongly(url: string): Promise<string[]> {
  const shown = async (headers: Readonly<Record<string, string>>): Promise<string> =>
    (await fetch(url, { headers, signal: AbortSignal.timeout(30_000) })).text();
  const [masked, whole] = [await shown({}), await shown(CLERK)];
  const customer: unknown = JSON.parse(whole).customer;
  return [
    ...(masked.includes(MARKER) || !masked.includes('"masked"') ? ['the API shows personal data to everybody'] : []),
    ...(JSON.stringify(customer) === JSON.stringify(CUSTOMER) ? [] : ['the API hides personal data from the clerk']),
  ];
}
