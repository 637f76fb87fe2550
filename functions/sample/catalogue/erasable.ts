import { defineErasable } from '../../../shared/sealing/index.ts';

/** Columns of the invoices' own tables that are cleared when a customer is erased. The stack tells the janitor the same. */
export const erasable = defineErasable([
  {
    table: 'sample.customer',
    key: 'id',
    kind: 'customer',
    subject: 'id',
    class: 'contact',
    columns: ['name', 'email', 'email_index', 'address'],
  },
  { table: 'sample.customer', key: 'id', kind: 'customer', subject: 'id', class: 'tax', columns: ['tax_id'] },
  { table: 'sample.customer', key: 'id', kind: 'customer', subject: 'id', class: 'bank', columns: ['iban'] },
  {
    table: 'sample.invoice',
    key: 'id',
    kind: 'customer',
    subject: 'customer_id',
    class: 'contact',
    columns: ['note', 'descriptions'],
  },
]);

/** What notifications keep of a customer, in a database that may be another. */
export const erasableNotes = defineErasable([
  {
    table: 'sample.notification',
    key: 'notification',
    kind: 'customer',
    subject: 'customer_id',
    class: 'contact',
    columns: ['recipient'],
  },
]);
