const MULTI_REGION = /^arn:(aws[a-z-]*):kms:[a-z0-9-]+:([0-9]{12}):key\/(mrk-[A-Za-z0-9-]+)$/;

/**
 * Whether two ARNs name the same key material: they are equal, or name a multi-Region key and its replica in another Region. Each of those opens what the other has
 * wrapped, and is called in its own Region only.
 */
export function isSameKmsKey(one: string, other: string): boolean {
  if (one === other) return true;
  const [, ...first] = MULTI_REGION.exec(one) ?? [];
  const [, ...second] = MULTI_REGION.exec(other) ?? [];
  return first.length > 0 && first.join() === second.join();
}
