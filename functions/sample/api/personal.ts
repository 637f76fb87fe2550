import { isErased, isSealed } from '../../../shared/sealing/index.ts';
import { maskEmail, maskIban, maskName, maskTaxId, maskText } from './mask.ts';

/** What of an invoice is personal; each value may also be `Sealed`. */
export interface Personal {
  readonly name: unknown;
  readonly email: unknown;
  readonly address: unknown;
  readonly taxId: unknown;
  readonly iban: unknown;
  readonly note: unknown;
  /** Of the lines, in their order: a list, or all of it `Sealed`. */
  readonly descriptions: unknown;
}

/** Why a value is not shown as it is. */
export interface Withheld {
  /** Of the value in the answer. */
  readonly pointer: string;
  readonly because: 'masked' | 'erased' | 'closed';
}

/** Personal values as an answer shows them. */
export interface ShownPersonal {
  readonly customer: Readonly<Record<'name' | 'email' | 'address' | 'taxId' | 'iban', string | null>>;
  readonly note: string | null;
  readonly descriptions: readonly (string | null)[];
  readonly withheld: readonly Withheld[];
}

/**
 * Personal values for a caller who may see them, or may not.
 *
 * @param lines how many the invoice has
 */
export function showPersonal(personal: Personal, lines: number, clear: boolean): ShownPersonal {
  const withheld: Withheld[] = [];
  const show = (pointer: string, value: unknown, mask: (text: string) => string): string | null => {
    if (isSealed(value)) {
      withheld.push({ pointer, because: isErased(value) ? 'erased' : 'closed' });
      return null;
    }
    if (typeof value !== 'string') return null;
    if (clear) return value;
    withheld.push({ pointer, because: 'masked' });
    return mask(value);
  };
  const { descriptions } = personal;
  const ofLine = (index: number): unknown => (Array.isArray(descriptions) ? descriptions[index] : descriptions);
  return {
    customer: {
      name: show('/customer/name', personal.name, maskName),
      email: show('/customer/email', personal.email, maskEmail),
      address: show('/customer/address', personal.address, maskText),
      taxId: show('/customer/taxId', personal.taxId, maskTaxId),
      iban: show('/customer/iban', personal.iban, maskIban),
    },
    descriptions: Array.from({ length: lines }, (_, index) =>
      show(`/lines/${index}/description`, ofLine(index), maskText),
    ),
    note: show('/note', personal.note, maskText),
    withheld,
  };
}
