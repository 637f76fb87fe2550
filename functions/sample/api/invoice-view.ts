import { type Personal, showPersonal } from './personal.ts';

/** A line without its description, which is personal. */
export interface Line {
  readonly quantity: number;
  readonly unitPriceMinor: number;
}

/** What is known of an invoice. */
export interface Invoice {
  readonly id: string;
  readonly customerId: string;
  readonly currency: string;
  readonly totalMinor: number;
  readonly paidMinor: number;
  readonly lines: readonly Line[];
  /** YYYY-MM-DD */
  readonly dueOn: string;
  readonly issuedAt: Date;
  readonly personal: Personal;
}

/** An invoice as the API shows it: personal values whole (`clear`), or masked. */
export function invoiceView(invoice: Invoice, clear: boolean): Record<string, unknown> {
  const remainingMinor = invoice.totalMinor - invoice.paidMinor;
  const { customer, descriptions, note, withheld } = showPersonal(invoice.personal, invoice.lines.length, clear);
  return {
    id: invoice.id,
    customerId: invoice.customerId,
    customer,
    currency: invoice.currency,
    totalMinor: invoice.totalMinor,
    paidMinor: invoice.paidMinor,
    remainingMinor,
    status: statusOf(remainingMinor),
    lines: invoice.lines.map(({ quantity, unitPriceMinor }, index) => ({
      description: descriptions[index] ?? null,
      quantity,
      unitPriceMinor,
    })),
    note,
    dueOn: invoice.dueOn,
    issuedAt: invoice.issuedAt.toISOString(),
    withheld,
  };
}

export function statusOf(remainingMinor: number): 'open' | 'paid' {
  return remainingMinor === 0 ? 'paid' : 'open';
}
