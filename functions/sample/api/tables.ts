import type { SealedTable } from '../sealed-rows.ts';

const STORE = 'invoices';

/** The sealed columns of this service's own tables. A key is the row's primary key. */
export const CUSTOMER = {
  store: STORE,
  table: 'sample.customer',
  columns: { name: 'contact', email: 'contact', address: 'contact', tax_id: 'tax', iban: 'bank' },
} as const satisfies SealedTable;

export const INVOICE = {
  store: STORE,
  table: 'sample.invoice',
  columns: { note: 'contact', descriptions: 'contact' },
} as const satisfies SealedTable;

export const IDEMPOTENCY = {
  store: STORE,
  table: 'sample.idempotency',
  columns: { sealed_answer: 'contact' },
} as const satisfies SealedTable;
