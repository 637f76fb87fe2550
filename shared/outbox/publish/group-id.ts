import { createHash } from 'node:crypto';

/** ASCII letters, digits and punctuation, at most 128: what SQS takes as group and deduplication id. */
const TAKEN_BY_SQS = /^[\x21-\x7e]{1,128}$/;

/**
 * The message group of an aggregate: its id, or `type/id` where two types share a queue. Ids that SQS does not take are replaced by
 * the SHA-256 of the same text, hexadecimal.
 */
export function messageGroupId(
  form: 'aggregate-id' | 'aggregate-type-and-id',
  aggregateType: string,
  aggregateId: string,
): string {
  const plain = form === 'aggregate-id' ? aggregateId : `${aggregateType}/${aggregateId}`;
  return TAKEN_BY_SQS.test(plain) ? plain : createHash('sha256').update(plain).digest('hex');
}
