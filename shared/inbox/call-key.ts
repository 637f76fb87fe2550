import { createHash } from 'node:crypto';

/** One call of one event at one consumer. */
export interface CallPlace {
  readonly consumer: string;
  readonly eventId: string;
  readonly name: string;
}

/**
 * The key under which the provider knows a call: a UUID (version 8), the first 122 bits of SHA-256 over the length-prefixed parts.
 *
 * Derived and not random, so that it is the same even where the reservation is not there any more: after a restore of the database, a
 * rollback, or a replay of an event whose row was pruned. It tells a provider nothing about the event.
 */
export function idempotencyKey({ consumer, eventId, name }: CallPlace): string {
  const hash = createHash('sha256');
  for (const part of ['sealed-outbox/external-call', consumer, eventId, name]) {
    hash.update(`${Buffer.byteLength(part)}:${part}`);
  }
  const bytes = hash.digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}
