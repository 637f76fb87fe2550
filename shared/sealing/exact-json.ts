/** Deeper than anything a person designs, and far from what ends the stack. */
const MAX_DEPTH = 100;

/**
 * Why `JSON.stringify` would drop or change something of a value, or null: what is sealed must come back exactly. (`-0`
 * comes back as 0, the same number.)
 */
export function inexactness(value: unknown, depth = 0): string | null {
  switch (typeof value) {
    case 'string':
      return value.isWellFormed() ? null : 'holds half a surrogate pair';
    case 'number':
      if (!Number.isFinite(value)) return 'holds a number that is not finite';
      return Number.isInteger(value) && !Number.isSafeInteger(value)
        ? 'holds a whole number beyond 2^53, whose digits JavaScript has already lost: write it as a string'
        : null;
    case 'boolean':
      return null;
    case 'object':
      if (value === null) return null;
      if (depth >= MAX_DEPTH) return `nests deeper than ${MAX_DEPTH} levels`;
      return Array.isArray(value) ? inexactArray(value, depth) : inexactObject(value, depth);
    default:
      return `holds a ${typeof value}, which JSON does not know`;
  }
}

function inexactArray(array: readonly unknown[], depth: number): string | null {
  for (let index = 0; index < array.length; index += 1) {
    const fault = inexactness(array[index], depth + 1);
    if (fault !== null) return fault;
  }
  return Object.keys(array).length === array.length ? null : 'holds an array with named properties';
}

function inexactObject(object: object, depth: number): string | null {
  const prototype: unknown = Object.getPrototypeOf(object);
  // A plain object's prototype is a root, also where it comes from another realm.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    return 'holds an instance of a class (such as Date or Map), which JSON would change';
  }
  if (Object.getOwnPropertySymbols(object).length > 0) return 'holds a symbol as a key, which JSON would drop';
  for (const [key, value] of Object.entries(object)) {
    if (!key.isWellFormed()) return 'holds a key with half a surrogate pair';
    const fault = inexactness(value, depth + 1);
    if (fault !== null) return fault;
  }
  return null;
}
