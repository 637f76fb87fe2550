/** What is known of an invoice. */
export interface Invoice {
  readonly id: string;
  readonly customerId: string;
  readonly currency: string;
  readonly totalMinor: number;
  readonly paidMinor: number;
  readonly lines: readonly unknown[];
  /** YYYY-MM-DD */
  readonly dueOn: string;
  readonly issuedAt: Date;
}

/** An invoice as the API shows it. */
export function invoiceView(invoice: Invoice): Record<string, unknown> {
  const remainingMinor = invoice.totalMinor - invoice.paidMinor;
  return {
    id: invoice.id,
    customerId: invoice.customerId,
    currency: invoice.currency,
    totalMinor: invoice.totalMinor,
    paidMinor: invoice.paidMinor,
    remainingMinor,
    status: statusOf(remainingMinor),
    lines: invoice.lines,
    dueOn: invoice.dueOn,
    issuedAt: invoice.issuedAt.toISOString(),
  };
}

export function statusOf(remainingMinor: number): 'open' | 'paid' {
  return remainingMinor === 0 ? 'paid' : 'open';
}
