import { isClassName } from '../sealed-text.ts';
import { ErasureError } from './errors.ts';

/** When the keys of a class are destroyed: at once, or after as many days as its data must be kept. */
export interface ErasableClass {
  readonly erase: 'onRequest' | { readonly after: number };
}

export type Classes = Readonly<Record<string, ErasableClass>>;

/** A hundred years: longer is a slip of the pen. */
const MOST_DAYS = 36_525;

/**
 * What becomes of each class of data when a person is erased. Declared once for all that seal and erase with one vault.
 *
 * `after` counts days from the request, or from the moment that the caller names with it (`since`), such as the end of the year of the last invoice. Until
 * then the data is restricted: no reader opens it, except logins with the role `vault_restricted_reader`.
 *
 * ```ts
 * export const classes = defineClasses({ contact: { erase: 'onRequest' }, tax: { erase: { after: 3653 } } });
 * ```
 *
 * @throws ErasureError `ERASURE_DECLARATION`
 */
export function defineClasses<const C extends Classes>(classes: C): C {
  if (Object.keys(classes).length === 0) throw refused('No class of data is declared.');
  for (const [name, { erase }] of Object.entries(classes)) {
    if (!isClassName(name)) throw refused(`Class '${name}' must be [a-z][a-z0-9-]{0,15}.`);
    if (erase === 'onRequest') continue;
    const days = (erase as { readonly after?: unknown } | undefined)?.after;
    if (typeof days !== 'number' || !Number.isInteger(days) || days < 1 || days > MOST_DAYS) {
      throw refused(`Class '${name}' must say erase: 'onRequest', or { after: days } with 1 to ${MOST_DAYS} days.`);
    }
  }
  return classes;
}

function refused(message: string): ErasureError {
  return new ErasureError('ERASURE_DECLARATION', message);
}
