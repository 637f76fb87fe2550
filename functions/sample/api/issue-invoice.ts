import type { DataOf } from '../../../shared/events/index.ts';
import type { Writer } from '../../../shared/outbox/index.ts';
import type { BlindIndexes, SealingKeys } from '../../../shared/sealing/index.ts';
import { classes, customerEmail, customerSubject, type DataClass } from '../catalogue/classes.ts';
import type { definition } from '../catalogue/definition.ts';
import { keyOf, sealRow } from '../sealed-rows.ts';
import type { SealAnswer } from './idempotency.ts';
import { invoiceView } from './invoice-view.ts';
import { type Answer, jsonAnswer, ProblemError } from './problem.ts';
import type { schemas } from './schemas.ts';
import type { Service } from './service.ts';
import { CUSTOMER, IDEMPOTENCY, INVOICE } from './tables.ts';
import type { Unit } from './unit-of-work.ts';

export type IssueInvoice = DataOf<typeof schemas.issueInvoice>;

/** The customer's keys, for the event and for the rows, and that of the index by which the customer is found. */
export interface PreparedInvoice {
  readonly writer: Writer<typeof definition>;
  readonly keys: SealingKeys;
  readonly indexes: BlindIndexes;
}

/** Loads the customer's keys, and creates those that are missing. Before the transaction: it may wait for the vault and for KMS. */
export async function prepareInvoice(service: Service, { customerId }: IssueInvoice): Promise<PreparedInvoice> {
  const subject = customerSubject(customerId);
  const needed = (Object.keys(classes) as DataClass[]).map((className) => ({ class: className, subject }));
  // The writer finds them in the keyring's memory: one read of the vault for both.
  const keys = await service.keyring.keysToSeal(needed);
  const indexes = await service.indexKeys.load([customerEmail]);
  return { keys, indexes, writer: await service.outbox.prepare({ subjects: [subject], types: ['invoice.issued'] }) };
}

/** How the answer to the request with this idempotency key is kept. */
export function sealInvoiceAnswer({ keys }: PreparedInvoice, key: string, { customerId }: IssueInvoice): SealAnswer {
  return (answer) => {
    const row = sealRow(IDEMPOTENCY, key, keys, customerSubject(customerId), { sealed_answer: answer });
    return row.sealed_answer ?? '';
  };
}

/**
 * Writes the invoice, its customer, and the event that says so, in one transaction. The answer is masked for every caller: it is kept for
 * repeats, and those may come from others.
 *
 * @throws ProblemError 400 for a total that cannot be counted, 409 for a customer who was erased
 */
export async function issueInvoice(
  service: Service,
  { tx, metadata }: Unit,
  { writer, keys, indexes }: PreparedInvoice,
  body: IssueInvoice,
): Promise<Answer> {
  const { customerId, customer, note, currency, dueOn } = body;
  const subject = customerSubject(customerId);
  if (keyOf(keys, 'contact', subject) === 'erased') {
    throw new ProblemError(
      'customer-erased',
      'The personal data of this customer was erased on request. An invoice needs a customer with a new id.',
    );
  }
  const id = service.newId();
  const totalMinor = total(body.lines);
  await writer.append(tx, [
    {
      type: 'invoice.issued',
      aggregate: { type: 'invoice', id },
      data: { invoiceId: id, totalMinor, ...body },
      metadata,
    },
  ]);
  const { name, email, address, taxId, iban } = customer;
  const person = sealRow(CUSTOMER, customerId, keys, subject, { name, email, address, tax_id: taxId, iban });
  await tx.query(
    `insert into sample.customer (id, name, email, email_index, address, tax_id, iban)
     values ($1, $2, $3, $4, $5, $6, $7)
     on conflict (id) do update
       set name = excluded.name, email = excluded.email, email_index = excluded.email_index, address = excluded.address,
           tax_id = excluded.tax_id, iban = excluded.iban, updated_at = now()`,
    [
      customerId,
      person.name,
      person.email,
      indexes.valueOf(customerEmail, email),
      person.address,
      person.tax_id,
      person.iban,
    ],
  );
  const lines = body.lines.map(({ quantity, unitPriceMinor }) => ({ quantity, unitPriceMinor }));
  const descriptions = body.lines.map(({ description }) => description);
  const invoice = sealRow(INVOICE, id, keys, subject, { note, descriptions });
  const { rows } = await tx.query(
    `insert into sample.invoice (id, customer_id, currency, total_minor, lines, due_on, note, descriptions)
     values ($1, $2, $3, $4, $5, $6, $7, $8)
     returning issued_at`,
    [id, customerId, currency, totalMinor, JSON.stringify(lines), dueOn, invoice.note, invoice.descriptions],
  );
  const personal = { name, email, address, taxId, iban, note, descriptions };
  const issued = { id, customerId, currency, totalMinor, paidMinor: 0, lines, dueOn, personal };
  const view = invoiceView({ ...issued, issuedAt: rows[0].issued_at }, false);
  return jsonAnswer(201, view, { location: `/invoices/${id}` });
}

/** Reckoned in bigint: 200 lines of a million pieces leave 2^53 behind easily. */
function total(lines: IssueInvoice['lines']): number {
  const sum = lines.reduce((so, line) => so + BigInt(line.quantity) * BigInt(line.unitPriceMinor), 0n);
  if (sum > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new ProblemError('invalid-request', 'The total is more than this service can count.', {
      violations: [{ pointer: '/lines', detail: `must come to at most ${Number.MAX_SAFE_INTEGER} together` }],
    });
  }
  return Number(sum);
}
