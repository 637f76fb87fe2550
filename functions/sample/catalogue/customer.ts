/** One line of text: neither control characters nor half a surrogate pair, of which PostgreSQL refuses some and printers the rest. */
const line = { type: 'string', minLength: 1, pattern: '^[^\\u0000-\\u001f\\u007f\\ud800-\\udfff]*$' } as const;
/** The same with line breaks. */
const lines = {
  type: 'string',
  minLength: 1,
  pattern: '^[^\\u0000-\\u0009\\u000b-\\u001f\\u007f\\ud800-\\udfff]*$',
} as const;

export const name = { ...line, maxLength: 200 } as const;
/** Only what every address has: which ones are in use, a mail tells. */
export const email = {
  type: 'string',
  maxLength: 254,
  pattern: '^[^\\u0000-\\u0020\\u007f\\ud800-\\udfff@]+@[^\\u0000-\\u0020\\u007f\\ud800-\\udfff@]+$',
} as const;
export const address = { ...lines, maxLength: 500 } as const;
/** Without blanks, as an authority writes it. */
export const taxId = { type: 'string', pattern: '^[0-9A-Z]{4,20}$' } as const;
/** ISO 13616, without blanks. */
export const iban = { type: 'string', pattern: '^[A-Z]{2}[0-9]{2}[0-9A-Z]{11,30}$' } as const;

/** Free text, which may say anything about a person. */
export const note = { ...lines, maxLength: 2_000 } as const;
/** What a line of an invoice is for; it may say something about a person, too. */
export const description = { ...line, maxLength: 200 } as const;
