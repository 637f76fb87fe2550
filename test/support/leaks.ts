import { inspect } from 'node:util';

/** Where text of a running system ends up, and what is in it. */
export type Sinks = Readonly<Record<string, readonly string[]>>;

/**
 * The ways in which a value may stand in a text: as it is, as JSON, URL and SQL write it, in hexadecimal digits and bytes as Node shows them, and in base64 wherever it begins
 * in what was encoded.
 */
export function formsOf(value: string): string[] {
  const bytes = Buffer.from(value);
  const hex = bytes.toString('hex');
  const decimal = [...bytes].join(',');
  const json = JSON.stringify(value).slice(1, -1);
  const ascii = json.replaceAll(
    /[^\x20-\x7e]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  const base64 = [0, 1, 2].flatMap((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    // What the bytes before and behind have a part in is left out.
    const inner = encoded.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6));
    return [inner, inner.replaceAll('+', '-').replaceAll('/', '_')];
  });
  const forms = [
    value,
    json,
    JSON.stringify(json).slice(1, -1),
    ascii,
    value.replaceAll("'", "''"),
    encodeURIComponent(value),
    encodeURI(value),
    encodeURIComponent(encodeURIComponent(value)),
    new URLSearchParams({ v: value }).toString().slice(2),
    hex,
    hex.replaceAll(/(..)(?=.)/g, '$1 '),
    decimal,
    ...base64,
  ];
  return [...new Set(forms.map((form) => form.toLowerCase()))];
}

/** Each sink that holds one of the values in some form, as `sink: value`. Upper and lower case are the same here. */
export function leaksIn(sinks: Sinks, values: readonly string[]): string[] {
  const forms = values.map((value) => ({ value, forms: formsOf(value) }));
  return Object.entries(sinks).flatMap(([sink, texts]) => {
    const all = texts.join('\n').toLowerCase();
    return forms
      .filter((wanted) => wanted.forms.some((form) => all.includes(form)))
      .map(({ value }) => `${sink}: ${value}`);
  });
}

/** All that a program could make of an error, however deep: what a logger, a tracker or a terminal would show. */
export function textOf(value: unknown): string {
  const seen = new Set<object>();
  const parts = [inspect(value, { depth: 20, showHidden: true, maxArrayLength: null, maxStringLength: null })];
  const walk = (it: unknown): void => {
    if (typeof it === 'string') parts.push(it);
    if (typeof it !== 'object' || it === null || seen.has(it)) return;
    seen.add(it);
    if (it instanceof Error) parts.push(it.message, String(it.stack));
    if (it instanceof Uint8Array) parts.push(Buffer.from(it).toString('utf8'));
    for (const name of Object.getOwnPropertyNames(it)) walk((it as Record<string, unknown>)[name]);
  };
  walk(value);
  return parts.join('\n');
}
