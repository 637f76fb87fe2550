import { address, email, iban, name, note, taxId } from './customer.ts';
import { uuid } from './ids.ts';
import { amountMinor, currency } from './money.ts';

/** An invoice was sent out. It says all of the invoice: a reader needs nothing else. */
export const invoiceIssued1 = {
  type: 'object',
  additionalProperties: false,
  required: ['invoiceId', 'customerId', 'currency', 'totalMinor', 'lines', 'dueOn'],
  properties: {
    invoiceId: uuid,
    customerId: uuid,
    currency,
    totalMinor: amountMinor,
    lines: {
      type: 'array',
      minItems: 1,
      maxItems: 200,
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['description', 'quantity', 'unitPriceMinor'],
        properties: {
          description: { type: 'string', minLength: 1, maxLength: 200 },
          quantity: { type: 'integer', minimum: 1, maximum: 1_000_000 },
          unitPriceMinor: amountMinor,
        },
      },
    },
    dueOn: { type: 'string', format: 'date' },
  },
} as const;

/** The same, with the customer. What is personal is sealed: for the customer, who is known by an id that says nothing. */
export const invoiceIssued2 = {
  type: 'object',
  additionalProperties: false,
  required: ['invoiceId', 'customerId', 'currency', 'totalMinor', 'lines', 'dueOn'],
  properties: {
    invoiceId: uuid,
    customerId: uuid,
    /** Not there in what was written as version 1. */
    customer: {
      type: 'object',
      additionalProperties: false,
      required: ['name', 'email', 'address'],
      properties: {
        name: { ...name, 'x-gdpr-sensitive': true },
        email: { ...email, 'x-gdpr-sensitive': true },
        address: { ...address, 'x-gdpr-sensitive': true },
        taxId: { ...taxId, 'x-gdpr-sensitive': { class: 'tax' } },
        iban: { ...iban, 'x-gdpr-sensitive': { class: 'bank' } },
      },
    },
    currency,
    totalMinor: amountMinor,
    lines: {
      type: 'array',
      minItems: 1,
      maxItems: 200,
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['description', 'quantity', 'unitPriceMinor'],
        properties: {
          // Wider than what is accepted today: version 1 took any text of this length.
          description: { type: 'string', minLength: 1, maxLength: 200, 'x-gdpr-sensitive': true },
          quantity: { type: 'integer', minimum: 1, maximum: 1_000_000 },
          unitPriceMinor: amountMinor,
        },
      },
    },
    note: { ...note, 'x-gdpr-sensitive': true },
    dueOn: { type: 'string', format: 'date' },
  },
} as const;
