import { address, description, email, iban, name, note, taxId } from '../catalogue/customer.ts';
import { uuid } from '../catalogue/ids.ts';
import { amountMinor, balanceMinor, currency } from '../catalogue/money.ts';

/** Years of four digits that PostgreSQL's calendar has too; the format alone lets 0000 pass. */
const date = { type: 'string', format: 'date', pattern: '^[12][0-9]{3}-' } as const;

const line = {
  type: 'object',
  additionalProperties: false,
  required: ['description', 'quantity', 'unitPriceMinor'],
  properties: {
    description,
    quantity: { type: 'integer', minimum: 1, maximum: 1_000_000 },
    unitPriceMinor: amountMinor,
  },
} as const;

const lines = { type: 'array', minItems: 1, maxItems: 200, items: line } as const;

const customer = {
  type: 'object',
  additionalProperties: false,
  required: ['name', 'email', 'address'],
  properties: { name, email, address, taxId, iban },
} as const;

/** Body of `POST /invoices`. */
const issueInvoice = {
  type: 'object',
  additionalProperties: false,
  required: ['customerId', 'customer', 'currency', 'lines', 'dueOn'],
  properties: { customerId: uuid, customer, currency, lines, note, dueOn: date },
} as const;

/** Body of `POST /invoices/{id}/payments`. */
const recordPayment = {
  type: 'object',
  additionalProperties: false,
  required: ['amountMinor'],
  properties: { amountMinor },
} as const;

/** Body of `POST /invoices/search`. The e-mail in any spelling: it is looked for, not kept. */
const searchInvoices = {
  type: 'object',
  additionalProperties: false,
  required: ['email'],
  properties: {
    email: { type: 'string', minLength: 1, maxLength: 254 },
    limit: { type: 'integer', minimum: 1, maximum: 100, description: 'How many at most; 20 without it.' },
    after: { ...uuid, description: '`next` of the page before.' },
  },
} as const;

/** What requests are checked against: compiled by `npm run generate`, published in the OpenAPI document. */
export const schemas = { issueInvoice, recordPayment, searchInvoices };

const status = { type: 'string', enum: ['open', 'paid'] } as const;
const time = { type: 'string', format: 'date-time' } as const;

/** A personal value as it is shown: whole, masked, or null, which `withheld` tells from a value that was never given. */
const shown = { type: ['string', 'null'] } as const;

const withheld = {
  type: 'array',
  description:
    'Personal values that are not shown as they are, by JSON Pointer. `masked`: a part of it, since the caller may not see it whole; `erased`: ' +
    'the person was forgotten; `closed`: this service may not open it.',
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['pointer', 'because'],
    properties: {
      pointer: { type: 'string', format: 'json-pointer' },
      because: { type: 'string', enum: ['masked', 'erased', 'closed'] },
    },
  },
} as const;

const invoice = {
  type: 'object',
  additionalProperties: false,
  required: [
    'id',
    'customerId',
    'customer',
    'note',
    'withheld',
    'currency',
    'totalMinor',
    'paidMinor',
    'remainingMinor',
    'status',
    'lines',
    'dueOn',
    'issuedAt',
  ],
  properties: {
    id: uuid,
    customerId: uuid,
    customer: {
      type: 'object',
      additionalProperties: false,
      required: ['name', 'email', 'address', 'taxId', 'iban'],
      properties: { name: shown, email: shown, address: shown, taxId: shown, iban: shown },
    },
    currency,
    totalMinor: amountMinor,
    paidMinor: balanceMinor,
    remainingMinor: balanceMinor,
    status,
    lines: { ...lines, items: { ...line, properties: { ...line.properties, description: shown } } },
    note: shown,
    withheld,
    dueOn: date,
    issuedAt: time,
  },
} as const;

const payment = {
  type: 'object',
  additionalProperties: false,
  required: ['id', 'invoiceId', 'currency', 'amountMinor', 'paidMinor', 'remainingMinor', 'status', 'recordedAt'],
  properties: {
    id: uuid,
    invoiceId: uuid,
    currency,
    amountMinor,
    /** Of the invoice, this payment included. */
    paidMinor: amountMinor,
    remainingMinor: balanceMinor,
    status,
    recordedAt: time,
  },
} as const;

const foundInvoices = {
  type: 'object',
  additionalProperties: false,
  required: ['invoices', 'next'],
  properties: {
    invoices: { type: 'array', maxItems: 100, description: 'Newest first.', items: invoice },
    next: {
      type: ['string', 'null'],
      description: 'Send it as `after` for the page that follows; null: this was the last.',
    },
  },
} as const;

const timeOrNull = { type: ['string', 'null'], format: 'date-time' } as const;

const erasure = {
  type: 'object',
  additionalProperties: false,
  required: ['customerId', 'outcome', 'classes'],
  properties: {
    customerId: uuid,
    outcome: { type: 'string', enum: ['done', 'waiting'] },
    classes: {
      type: 'array',
      description:
        'What becomes of each class of data. `erased`: nobody opens it any more. `restricted`: the law has it kept; closed to all readers now, destroyed at ' +
        '`until`. `waiting`: nothing has happened yet, it will at `until`, and what must be kept then is destroyed at `keptUntil`.',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['class', 'state', 'until', 'keptUntil'],
        properties: {
          class: { type: 'string', enum: ['contact', 'tax', 'bank'] },
          state: { type: 'string', enum: ['erased', 'restricted', 'waiting'] },
          until: timeOrNull,
          keptUntil: timeOrNull,
        },
      },
    },
  },
} as const;

/** RFC 9457. */
const problem = {
  type: 'object',
  additionalProperties: false,
  required: ['type', 'title', 'status', 'detail', 'instance'],
  properties: {
    type: { type: 'string', format: 'uri-reference' },
    title: { type: 'string' },
    status: { type: 'integer', minimum: 400, maximum: 599 },
    detail: { type: 'string' },
    instance: { type: 'string', format: 'uri-reference' },
    errors: {
      type: 'array',
      minItems: 1,
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['pointer', 'detail'],
        properties: { pointer: { type: 'string', format: 'json-pointer' }, detail: { type: 'string' } },
      },
    },
  },
} as const;

/** What answers look like. */
export const responseSchemas = { invoice, foundInvoices, payment, erasure, problem };
