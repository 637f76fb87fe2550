import type { DataOf } from '../../../shared/events/index.ts';
import { customerEmail } from '../catalogue/classes.ts';
import { openRow, sealedRowNames } from '../sealed-rows.ts';
import { type Answer, jsonAnswer, ProblemError } from './problem.ts';
import { invoiceKeys, type InvoiceRow, openedInvoice, SELECT_INVOICES } from './read-invoice.ts';
import type { schemas } from './schemas.ts';
import type { Service } from './service.ts';
import { CUSTOMER } from './tables.ts';

type SearchInvoices = DataOf<typeof schemas.searchInvoices>;

/** Customers with one e-mail. More are a mistake in the data, or an attempt to have much opened. */
const MOST_CUSTOMERS = 100;
const PAGE = 20;

interface FoundCustomer {
  readonly id: string;
  readonly email: string | null;
}

/**
 * Invoices whose customers have this e-mail now, in whatever spelling; newest first. Erased customers are not found.
 *
 * @param clear whether the caller sees personal values whole
 * @throws ProblemError 400 for more customers than can be looked at; SealingError
 */
export async function searchInvoices(
  service: Service,
  { email, limit = PAGE, after }: SearchInvoices,
  clear: boolean,
): Promise<Answer> {
  const { pool, keyring } = service;
  const customers = await customersWith(service, email);
  // Ids of invoices are UUIDs of version 7: later ones are greater.
  const { rows } = await pool.query<InvoiceRow>(
    `${SELECT_INVOICES}
      where i.customer_id = any ($1) and ($2::uuid is null or i.id < $2)
      order by i.id desc
      limit $3`,
    [customers, after ?? null, limit + 1],
  );
  const page = rows.slice(0, limit);
  const keys = await keyring.keysToOpen(page.flatMap(invoiceKeys));
  return jsonAnswer(200, {
    invoices: page.map((row) => openedInvoice(row, keys, clear)),
    next: rows.length > limit ? (page.at(-1)?.id ?? null) : null,
  });
}

/** @returns ids */
async function customersWith({ pool, keyring, indexKeys }: Service, wanted: string): Promise<string[]> {
  const indexes = await indexKeys.load([customerEmail]);
  const found = await indexes.find(
    customerEmail,
    wanted,
    async (values) => {
      const { rows } = await pool.query<FoundCustomer>(
        'select id, email from sample.customer where email_index = any ($1) order by id limit $2',
        [values, MOST_CUSTOMERS + 1],
      );
      if (rows.length > MOST_CUSTOMERS) {
        throw new ProblemError('invalid-request', 'Too many customers have this e-mail: nothing was searched.', {
          violations: [{ pointer: '/email', detail: `must be of at most ${MOST_CUSTOMERS} customers` }],
        });
      }
      const keys = await keyring.keysToOpen(rows.flatMap(({ email }) => sealedRowNames({ email })));
      return rows.map(({ id, email }) => {
        const sealed = { name: null, email, address: null, tax_id: null, iban: null };
        return { id, email: openRow(CUSTOMER, id, sealed, keys).email };
      });
    },
    ({ email }) => email,
  );
  return found.map(({ id }) => id);
}
