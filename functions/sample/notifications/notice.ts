import type { Mail } from './mail-client.ts';

interface IssuedInvoice {
  readonly invoiceId: string;
  readonly customerId: string;
  readonly currency: string;
  readonly totalMinor: number;
  readonly dueOn: string;
}

/**
 * The mail that says that an invoice was issued. Made of the event alone, so that a retry sends the very same: a provider refuses a key
 * that comes with another mail.
 *
 * The address is made up from the customer's id, at a domain that never exists: events hold no personal data as long as they are not sealed.
 */
export function invoiceNotice({ invoiceId, customerId, currency, totalMinor, dueOn }: IssuedInvoice): Mail {
  return {
    to: `${customerId}@customers.example.invalid`,
    subject: `Your invoice ${invoiceId}`,
    text: `Please pay ${totalMinor} minor units of ${currency} by ${dueOn}.`,
    reference: invoiceId,
  };
}
