import { uuid } from './ids.ts';
import { amountMinor, currency } from './money.ts';

/** Nothing of the invoice is owed any more. */
export const invoicePaid1 = {
  type: 'object',
  additionalProperties: false,
  required: ['invoiceId', 'currency', 'totalMinor'],
  properties: { invoiceId: uuid, currency, totalMinor: amountMinor },
} as const;
