/** A UUID in the one way of writing it: JSON Schema's own format would let upper case and `urn:uuid:` pass too. */
export const uuid = {
  type: 'string',
  pattern: '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$',
} as const;
