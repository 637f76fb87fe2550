import { blindIndex, defineClasses, email } from '../../../shared/sealing/index.ts';

/**
 * The classes of personal data in this service, and when a person's key of each is destroyed: when somebody asks for it, or a period after
 * that, in days. Tax ids and accounts belong to invoices, which the law has kept for ten years.
 */
export const classes = defineClasses({
  contact: { erase: 'onRequest' },
  tax: { erase: { after: 3653 } },
  bank: { erase: { after: 3653 } },
});

export type DataClass = keyof typeof classes;

/** Whose data it is, as the vault names that person. */
export function customerSubject(id: string): { readonly kind: 'customer'; readonly id: string } {
  return { kind: 'customer', id };
}

/** By which customers are found, beside their sealed e-mail. */
export const customerEmail = blindIndex({ name: 'customer-email', class: 'contact', normaliser: email });
