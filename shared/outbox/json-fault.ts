import { isStorableText } from '../events/index.ts';

export interface JsonFault {
  /** Where, written after the name of the whole: `.lines[0].note`; empty for the whole. */
  readonly path: string;
  readonly reason: string;
}

/** Deeper than anything a person designs; far from what ends the stack here or in PostgreSQL. */
const MAX_DEPTH = 100;
/** Names come from the data's shape; a long one is cut in messages. */
const MAX_NAME = 60;

/**
 * Finds what JSON, or PostgreSQL after it, would drop, change or refuse: `JSON.stringify` leaves out `undefined` and
 * functions, writes NaN as null and a Date as a string, all without a word. Null when the value goes through as it is.
 * (`-0` goes through as 0, the same number.)
 */
export function jsonFault(value: unknown, depth = 0): JsonFault | null {
  switch (typeof value) {
    case 'string':
      return isStorableText(value) ? null : at('holds U+0000 or half a surrogate pair, which PostgreSQL cannot store');
    case 'number':
      if (!Number.isFinite(value)) return at('is not a finite number');
      return Number.isInteger(value) && !Number.isSafeInteger(value)
        ? at('is a whole number beyond 2^53, whose digits JavaScript has already lost: write it as a string')
        : null;
    case 'boolean':
      return null;
    case 'object':
      if (value === null) return null;
      if (depth >= MAX_DEPTH) return at(`nests deeper than ${MAX_DEPTH} levels`);
      return Array.isArray(value) ? arrayFault(value, depth) : objectFault(value, depth);
    case 'bigint':
      return at('is a bigint, which JSON does not know: write it as a string');
    default:
      return at(`is ${typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`}, which JSON does not know`);
  }
}

function at(reason: string): JsonFault {
  return { path: '', reason };
}

function below(step: string, fault: JsonFault | null): JsonFault | null {
  return fault === null ? null : { path: step + fault.path, reason: fault.reason };
}

function arrayFault(array: readonly unknown[], depth: number): JsonFault | null {
  for (let index = 0; index < array.length; index += 1) {
    const fault = below(`[${index}]`, jsonFault(array[index], depth + 1));
    if (fault !== null) return fault;
  }
  return Object.keys(array).length === array.length ? null : at('is an array with named properties');
}

function objectFault(object: object, depth: number): JsonFault | null {
  const prototype: unknown = Object.getPrototypeOf(object);
  // A plain object's prototype is a root, also where it comes from another realm.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    return at('is an instance of a class (such as Date or Map), which JSON would change');
  }
  if (Object.getOwnPropertySymbols(object).length > 0) return at('has a symbol as a key, which JSON would drop');
  for (const [key, value] of Object.entries(object)) {
    const step = pathStep(key);
    if (!isStorableText(key)) return below(step, at('is a key that holds U+0000 or half a surrogate pair'));
    const fault = below(step, jsonFault(value, depth + 1));
    if (fault !== null) return fault;
  }
  return null;
}

function pathStep(key: string): string {
  if (/^[A-Za-z_$][\w$]*$/.test(key) && key.length <= MAX_NAME) return `.${key}`;
  return `[${JSON.stringify(key.slice(0, MAX_NAME))}]`;
}
