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
