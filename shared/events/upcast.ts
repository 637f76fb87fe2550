import { maskMarked } from '../sealing/index.ts';
import { newestVersion } from './catalogue.ts';
import { type CompiledCatalogue, validatorKey } from './compiled-catalogue.ts';
import { oldestReadable, type Upcaster } from './upcaster.ts';
import { violations } from './violation.ts';

/**
 * - `too-old`: no upcaster takes this version;
 * - `threw`: an upcaster threw;
 * - `invalid`: what it answered is not valid data of the next version.
 */
export type UpcastFault = 'too-old' | 'threw' | 'invalid';

export type Upcast =
  | { readonly ok: true; readonly version: number; readonly data: unknown }
  /** `reason` names type, versions and rule, never a value; what `cause` says may hold some. */
  | { readonly ok: false; readonly fault: UpcastFault; readonly reason: string; readonly cause?: unknown };

const SHOWN_VIOLATIONS = 3;

/**
 * Brings data of any version up to the newest, one upcaster after the other, each answer held against its schema.
 *
 * ```ts
 * const read = upcastData(catalogue, 'invoice.issued', 1, { totalMinor: 100 });
 * ```
 *
 * @param data valid data of `version`
 * @param whole whether nothing marked in it is closed or erased; if not, marked places are not looked into
 */
export function upcastData(
  catalogue: CompiledCatalogue,
  type: string,
  version: number,
  data: unknown,
  whole = true,
): Upcast {
  const definition = Object.hasOwn(catalogue.events, type) ? catalogue.events[type] : undefined;
  const newest = definition === undefined ? 0 : newestVersion(definition);
  if (definition === undefined || version > newest || version < oldestReadable(definition)) {
    return { ok: false, fault: 'too-old', reason: `no upcaster leads from version ${version} of ${type} to ${newest}` };
  }
  let current = data;
  for (let from = version; from < newest; from += 1) {
    const next = step(catalogue, type, from, definition.upcast?.[from] as Upcaster, current, whole);
    if (!next.ok) return next;
    current = next.data;
  }
  return { ok: true, version: newest, data: current };
}

function step(
  catalogue: CompiledCatalogue,
  type: string,
  from: number,
  upcaster: Upcaster,
  data: unknown,
  whole: boolean,
): Upcast {
  const to = from + 1;
  const where = `the upcaster of ${type} from version ${from} to ${to}`;
  let next: unknown;
  try {
    next = upcaster.apply(data);
  } catch (cause) {
    return { ok: false, fault: 'threw', reason: `${where} threw`, cause };
  }
  // A promise or a map would pass a schema that asks for nothing but an object.
  if (!isPlainObject(next)) return { ok: false, fault: 'invalid', reason: `${where} did not answer a plain object` };
  const key = validatorKey(type, to);
  const sealed = whole ? undefined : catalogue.sealed.get(key);
  const validate = sealed?.validate ?? catalogue.validators[key];
  const checked = sealed === undefined ? next : maskMarked(next, sealed.plan);
  const found = validate === undefined ? [] : violations(validate, checked, SHOWN_VIOLATIONS);
  if (found.length > 0) {
    const rules = found.map(({ pointer, detail }) => `data${pointer} ${detail}`).join('; ');
    return { ok: false, fault: 'invalid', reason: `${where} gave data that is not valid there: ${rules}` };
  }
  return { ok: true, version: to, data: next };
}

function isPlainObject(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
