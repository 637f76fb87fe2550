export type Fields = Readonly<Record<string, unknown>>;

/** An object that is given as such, as in cdk.json, or as JSON text, as `-c name='…'` does; else undefined. */
export function jsonObject(given: unknown): Fields | undefined {
  let value: unknown = given;
  if (typeof given === 'string') {
    try {
      value = JSON.parse(given);
    } catch {
      return undefined;
    }
  }
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}
