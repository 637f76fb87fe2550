import { MAX_BODY_BYTES } from './request.ts';
import { responseSchemas, schemas } from './schemas.ts';

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const json = (name: string) => ({ 'application/json': { schema: ref(name) } });
const problem = (description: string, headers?: Record<string, unknown>) => ({
  description,
  ...(headers === undefined ? {} : { headers }),
  content: { 'application/problem+json': { schema: ref('problem') } },
});
const text = (description: string) => ({ description, required: true, schema: { type: 'string' } });

const idOf = (what: string) => ({
  name: 'id',
  in: 'path',
  required: true,
  description: `The id of the ${what}.`,
  schema: { type: 'string' },
});
const idempotencyParameter = {
  name: 'Idempotency-Key',
  in: 'header',
  required: true,
  description:
    'New for each request, the same for its repeats. A repeat gets the first answer again; after a problem (4xx, 5xx) nothing is kept and the key is free.',
  schema: { type: 'string', pattern: '^[!-~]{1,255}$' },
};
const traceParameter = {
  name: 'traceparent',
  in: 'header',
  required: false,
  description: 'W3C trace context; goes along with the events.',
  schema: { type: 'string' },
};
const replayed = {
  'Idempotency-Replayed': {
    description: 'Present on the answer to a repeat.',
    required: false,
    schema: { type: 'string', enum: ['true'] },
  },
};

/** Whatever the operation: something broke, or the database is away. */
const failures = {
  500: problem('Something went wrong; nothing was carried out.'),
  503: problem('The database is away, or the keys of personal data are.', { 'Retry-After': text('Seconds to wait.') }),
};
/** Of every operation that takes a body. */
const bodyProblems = {
  400: problem('A field, a header or the JSON is not valid; `errors` names the fields.'),
  413: problem(`The body has more than ${MAX_BODY_BYTES} bytes.`),
  415: problem('The body is not sent as application/json.'),
};

/** OpenAPI 3.1. Its schemas are those that check the requests; a test holds the rest against the running API. */
export const openApi = {
  openapi: '3.1.0',
  info: {
    title: 'Invoices',
    version: '2.1.0',
    description: 'The sample service of Sealed Outbox. Amounts are whole numbers of minor units (cents).',
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
  paths: {
    '/invoices': {
      post: {
        operationId: 'issueInvoice',
        summary: 'Issue an invoice',
        parameters: [idempotencyParameter, traceParameter],
        requestBody: { required: true, content: json('issueInvoice') },
        responses: {
          201: {
            description: 'Issued. The event invoice.issued is on its way. Personal values are masked for every caller.',
            headers: { Location: text('Path of the invoice.'), ...replayed },
            content: json('invoice'),
          },
          ...bodyProblems,
          409: problem('The idempotency key belongs to another request, or the customer was erased.'),
          410: problem('A repeat whose first answer was erased with the personal data in it. The invoice exists.', {
            Location: text('Where the invoice is.'),
          }),
          ...failures,
        },
      },
    },
    '/invoices/search': {
      post: {
        operationId: 'searchInvoices',
        summary: "Find invoices by their customer's e-mail",
        description:
          'In any spelling: case, spaces, the kinds of i and s, and full-width letters mean nothing. Called seldom: the gateway limits it.',
        requestBody: { required: true, content: json('searchInvoices') },
        responses: {
          200: {
            description: 'The invoices, or none. Personal values are masked unless the caller may see them.',
            content: json('foundInvoices'),
          },
          ...bodyProblems,
          ...failures,
        },
      },
    },
    '/invoices/{id}': {
      get: {
        operationId: 'readInvoice',
        summary: 'Read an invoice',
        parameters: [idOf('invoice')],
        responses: {
          200: {
            description: 'The invoice. Personal values are masked unless the caller may see them.',
            content: json('invoice'),
          },
          404: problem('There is no such invoice.'),
          ...failures,
        },
      },
    },
    '/invoices/{id}/payments': {
      post: {
        operationId: 'recordPayment',
        summary: 'Record a payment',
        parameters: [idOf('invoice'), idempotencyParameter, traceParameter],
        requestBody: { required: true, content: json('recordPayment') },
        responses: {
          201: {
            description: 'Recorded. invoice.payment-recorded is on its way, and invoice.paid if nothing is owed now.',
            headers: replayed,
            content: json('payment'),
          },
          ...bodyProblems,
          404: problem('There is no such invoice.'),
          409: problem('More than what is owed, or the idempotency key belongs to another request.'),
          ...failures,
        },
      },
    },
    '/customers/{id}': {
      delete: {
        operationId: 'eraseCustomer',
        summary: "Erase a customer's personal data",
        description:
          'Destroys the keys of what is sealed about the customer, wherever it is, and says what the law has kept until when. A repeat does nothing more. Invoices stay, without what is personal.',
        parameters: [idOf('customer')],
        responses: {
          200: { description: 'Done. person.erased is on its way.', content: json('erasure') },
          202: {
            description: 'Asked for. It is done at `until` and can be cancelled before.',
            content: json('erasure'),
          },
          404: problem('There is no such customer, or nothing sealed about one.'),
          500: problem('Something went wrong; it is not known whether the erasure was recorded. Repeat the request.'),
          503: problem('The database, the keys, or the log of erasures is away. Repeat the request.', {
            'Retry-After': text('Seconds to wait.'),
          }),
        },
      },
    },
    '/openapi.json': {
      get: {
        operationId: 'readOpenApi',
        summary: 'Read this document',
        responses: {
          200: { description: 'This document.', content: { 'application/json': { schema: { type: 'object' } } } },
        },
      },
    },
  },
  components: { schemas: { ...schemas, ...responseSchemas } },
};

let cached: string | undefined;

export function openApiText(): string {
  cached ??= JSON.stringify(openApi);
  return cached;
}
