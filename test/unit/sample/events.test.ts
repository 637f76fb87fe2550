import { describe, expect, it } from 'vitest';
import { classes } from '../../../functions/sample/catalogue/classes.ts';
import { catalogue } from '../../../functions/sample/catalogue/index.ts';
import { invoiceNotice } from '../../../functions/sample/notifications/notice.ts';
import { upcastData } from '../../../shared/events/index.ts';
import { Sealed } from '../../../shared/sealing/index.ts';

/** As it was written before invoices named their customer. */
const version1 = {
  invoiceId: '6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f',
  customerId: '0d9f8a52-6c1e-4b7a-9a53-2f60c1b7e111',
  currency: 'EUR',
  totalMinor: 1200,
  lines: [{ description: 'Translation', quantity: 12, unitPriceMinor: 100 }],
  dueOn: '2030-01-31',
};

describe('invoice.issued', () => {
  it('of version 1 means an invoice that names no customer', () => {
    expect(upcastData(catalogue, 'invoice.issued', 1, version1)).toEqual({ ok: true, version: 2, data: version1 });
  });

  it('marks exactly the classes that the service has', () => {
    const marks = catalogue.sealed.get('invoice.issued/2')!.plan.nodes.flatMap(({ mark }) => mark?.class ?? []);
    expect(new Set(marks)).toEqual(new Set(Object.keys(classes)));
    expect(catalogue.sealed.has('invoice.issued/1')).toBe(false);
  });
});

describe('the mail about an invoice', () => {
  const customer = { name: 'Ada Lovelace', email: 'ada@lovelace.example' };

  it('goes to the customer, by name', () => {
    expect(invoiceNotice({ ...version1, customer })).toMatchObject({
      to: 'ada@lovelace.example',
      text: 'Dear Ada Lovelace,\n\nPlease pay 1200 minor units of EUR by 2030-01-31.',
    });
  });

  it('of version 1 is the very one that was sent before, since a retry must send the same', () => {
    expect(invoiceNotice(version1)).toEqual({
      to: `${version1.customerId}@customers.example.invalid`,
      subject: `Your invoice ${version1.invoiceId}`,
      text: 'Please pay 1200 minor units of EUR by 2030-01-31.',
      reference: version1.invoiceId,
    });
  });

  it.each(['name', 'email'])('goes to nobody whose %s is closed', (field) => {
    const closed = { ...customer, [field]: new Sealed<string>('erased.1', 'erased') };
    expect(invoiceNotice({ ...version1, customer: closed })).toBeUndefined();
  });
});
