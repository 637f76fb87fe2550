import { ERASED_TEXT } from '../../../shared/sealing/index.ts';
import { openRow, sealedRowNames } from '../sealed-rows.ts';
import { invoiceView, type Line } from './invoice-view.ts';
import { type Answer, jsonAnswer, ProblemError } from './problem.ts';
import type { Service } from './service.ts';
import { CUSTOMER, INVOICE } from './tables.ts';

/**
 * @param clear whether the caller sees personal values whole
 * @throws ProblemError 404; SealingError
 */
export async function readInvoice({ pool, keyring }: Service, id: string, clear: boolean): Promise<Answer> {
  const { rows } = await pool.query(
    `select i.id, i.customer_id, i.currency, i.total_minor, i.paid_minor, i.lines, i.due_on::text as due_on, i.issued_at,
            i.note, i.descriptions, c.id is not null as named, c.name, c.email, c.address, c.tax_id, c.iban
       from sample.invoice i left join sample.customer c on c.id = i.customer_id
      where i.id = $1`,
    [id],
  );
  const [row] = rows;
  if (row === undefined) throw new ProblemError('not-found', 'There is no invoice with this id.');
  // Every customer has these: where one is gone, it was erased.
  const gone = row.named === true ? ERASED_TEXT : null;
  const sealedCustomer = {
    name: row.name ?? gone,
    email: row.email ?? gone,
    address: row.address ?? gone,
    tax_id: row.tax_id,
    iban: row.iban,
  };
  const sealedInvoice = { note: row.note, descriptions: row.descriptions };
  const keys = await keyring.keysToOpen([...sealedRowNames(sealedCustomer), ...sealedRowNames(sealedInvoice)]);
  const customer = openRow(CUSTOMER, row.customer_id, sealedCustomer, keys);
  const opened = openRow(INVOICE, row.id, sealedInvoice, keys);
  const lines = row.lines as readonly (Line & { readonly description?: string })[];
  const view = invoiceView(
    {
      id: row.id,
      customerId: row.customer_id,
      currency: row.currency,
      totalMinor: Number(row.total_minor),
      paidMinor: Number(row.paid_minor),
      lines,
      dueOn: row.due_on,
      issuedAt: row.issued_at,
      personal: {
        name: customer.name,
        email: customer.email,
        address: customer.address,
        taxId: customer.tax_id,
        iban: customer.iban,
        note: opened.note,
        // Lines from before they were sealed hold their own.
        descriptions: opened.descriptions ?? lines.map(({ description }) => description),
      },
    },
    clear,
  );
  return jsonAnswer(200, view);
}
