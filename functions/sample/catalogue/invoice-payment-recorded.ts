import { uuid } from './ids.ts';
import { amountMinor, balanceMinor, currency } from './money.ts';

/** Money came in for an invoice. */
export const invoicePaymentRecorded1 = {
  type: 'object',
  additionalProperties: false,
  required: ['invoiceId', 'paymentId', 'currency', 'amountMinor', 'paidMinor', 'remainingMinor'],
  properties: {
    invoiceId: uuid,
    paymentId: uuid,
    currency,
    amountMinor,
    /** Of the invoice, this payment included. */
    paidMinor: amountMinor,
    remainingMinor: balanceMinor,
  },
} as const;
