/** As deep as anybody would look. */
const DEPTH = 32;

/** The shape of a message without what it says: names, kinds and lengths. For what no schema vouches for. */
export function masked(body: string): string {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return `(no JSON, ${Buffer.byteLength(body)} bytes)`;
  }
  return JSON.stringify(shape(value, DEPTH));
}

function shape(value: unknown, depth: number): unknown {
  if (value === null) return null;
  if (depth === 0) return '(deeper)';
  if (Array.isArray(value)) return value.map((item) => shape(item, depth - 1));
  if (typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, shape(item, depth - 1)]));
  }
  return typeof value === 'string' ? `(string, ${value.length} characters)` : `(${typeof value})`;
}
