import { isSealed, type Sealed } from '../../../shared/sealing/index.ts';
import type { Mail } from './mail-client.ts';

interface IssuedInvoice {
  readonly invoiceId: string;
  readonly customerId: string;
  readonly customer?: { readonly name: string | Sealed<string>; readonly email: string | Sealed<string> };
  readonly currency: string;
  readonly totalMinor: number;
  readonly dueOn: string;
}

/**
 * The mail that says that an invoice was issued; undefined where the customer was erased, whom nobody writes to. Made of the event alone, so
 * that a retry sends the very same: a provider refuses a key that comes with another mail.
 */
export function invoiceNotice(invoice: IssuedInvoice): Mail | undefined {
  const { invoiceId, customerId, customer, currency, totalMinor, dueOn } = invoice;
  const text = `Please pay ${totalMinor} minor units of ${currency} by ${dueOn}.`;
  const mail = { subject: `Your invoice ${invoiceId}`, reference: invoiceId };
  // Version 1 named no customer: its mails go, as they always did, to an address at a domain that never exists.
  if (customer === undefined) return { ...mail, to: `${customerId}@customers.example.invalid`, text };
  const { name, email } = customer;
  if (isSealed(name) || isSealed(email)) return undefined;
  return { ...mail, to: email, text: `Dear ${name},\n\n${text}` };
}
