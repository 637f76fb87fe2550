/**
 * The classes of personal data in this service, and when a person's key of each is destroyed: when somebody asks for it, or a period after
 * that. Tax ids and accounts belong to invoices, which the law has kept for ten years (ISO 8601 durations).
 */
export const classes = {
  contact: { erase: 'onRequest' },
  tax: { erase: { after: 'P10Y' } },
  bank: { erase: { after: 'P10Y' } },
} as const;

export type DataClass = keyof typeof classes;

/** Whose data it is, as the vault names that person. */
export function customerSubject(id: string): { readonly kind: 'customer'; readonly id: string } {
  return { kind: 'customer', id };
}
