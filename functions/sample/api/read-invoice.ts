import { ERASED_TEXT, type KeyName, type OpeningKeys } from '../../../shared/sealing/index.ts';
import { openRow, type SealedRow, sealedRowNames } from '../sealed-rows.ts';
import { invoiceView, type Line } from './invoice-view.ts';
import { type Answer, jsonAnswer, ProblemError } from './problem.ts';
import type { Service } from './service.ts';
import { CUSTOMER, INVOICE } from './tables.ts';

/** An invoice with its customer, sealed. */
export interface InvoiceRow {
  readonly id: string;
  readonly customerId: string;
  readonly currency: string;
  /** 64 bits. */
  readonly totalMinor: string;
  readonly paidMinor: string;
  readonly lines: readonly (Line & { readonly description?: string })[];
  /** YYYY-MM-DD */
  readonly dueOn: string;
  readonly issuedAt: Date;
  readonly invoice: SealedRow<keyof typeof INVOICE.columns>;
  /** Null where the invoice is from before customers were named. */
  readonly customer: SealedRow<keyof typeof CUSTOMER.columns> | null;
}

/** Rows of `InvoiceRow`; a condition follows. */
export const SELECT_INVOICES = `
  select i.id, i.customer_id as "customerId", i.currency, i.total_minor as "totalMinor", i.paid_minor as "paidMinor", i.lines,
         i.due_on::text as "dueOn", i.issued_at as "issuedAt",
         json_build_object('note', i.note, 'descriptions', i.descriptions) as invoice,
         case when c.id is not null then json_build_object('name', c.name, 'email', c.email, 'address', c.address,
                                                           'tax_id', c.tax_id, 'iban', c.iban) end as customer
    from sample.invoice i left join sample.customer c on c.id = i.customer_id`;

/**
 * @param clear whether the caller sees personal values whole
 * @throws ProblemError 404; SealingError
 */
export async function readInvoice({ pool, keyring }: Service, id: string, clear: boolean): Promise<Answer> {
  const { rows } = await pool.query<InvoiceRow>(`${SELECT_INVOICES} where i.id = $1`, [id]);
  const [row] = rows;
  if (row === undefined) throw new ProblemError('not-found', 'There is no invoice with this id.');
  return jsonAnswer(200, openedInvoice(row, await keyring.keysToOpen(invoiceKeys(row)), clear));
}

/** The keys of what is sealed in an invoice, to load before it is opened. @throws SealingError */
export function invoiceKeys({ invoice, customer }: InvoiceRow): KeyName[] {
  return [...sealedRowNames(invoice), ...sealedRowNames(customer ?? {})];
}

/** An invoice as it is shown. @throws SealingError */
export function openedInvoice(row: InvoiceRow, keys: OpeningKeys, clear: boolean): Record<string, unknown> {
  const { lines } = row;
  // Every customer has name, e-mail and address: where one is gone, it was erased.
  const named = row.customer && {
    ...row.customer,
    name: row.customer.name ?? ERASED_TEXT,
    email: row.customer.email ?? ERASED_TEXT,
    address: row.customer.address ?? ERASED_TEXT,
  };
  const customer = named && openRow(CUSTOMER, row.customerId, named, keys);
  const opened = openRow(INVOICE, row.id, row.invoice, keys);
  return invoiceView(
    {
      id: row.id,
      customerId: row.customerId,
      currency: row.currency,
      totalMinor: Number(row.totalMinor),
      paidMinor: Number(row.paidMinor),
      lines,
      dueOn: row.dueOn,
      issuedAt: row.issuedAt,
      personal: {
        name: customer?.name,
        email: customer?.email,
        address: customer?.address,
        taxId: customer?.tax_id,
        iban: customer?.iban,
        note: opened.note,
        // Lines from before they were sealed hold their own.
        descriptions: opened.descriptions ?? lines.map(({ description }) => description),
      },
    },
    clear,
  );
}
