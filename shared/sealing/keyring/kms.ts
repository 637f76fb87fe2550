/**
 * What a key is bound to in KMS: it unwraps with exactly this, policies can ask for it, and it stands in the audit log. Nothing
 * of a person.
 */
export interface KmsContext {
  readonly vault: string;
  readonly class: string;
  /** Decimal. */
  readonly version: string;
  /** A branch key, the key of a blind index over values of the class, or the key under which the log of erasures names persons. */
  readonly purpose: 'branch' | 'index' | 'erasure';
}

export function branchContext(vault: string, className: string, version: number): KmsContext {
  return { vault, class: className, version: String(version), purpose: 'branch' };
}

export interface WrappedKey {
  /** What wrapped it: an ARN. Wrapped keys are unwrapped by what they name, not by what is configured today. */
  readonly kmsKey: string;
  readonly wrapped: Uint8Array;
}

export interface DataKey extends WrappedKey {
  /** 32 bytes. */
  readonly plaintext: Uint8Array;
}

/**
 * A key management service. Each call is one request, ended by itself within seconds.
 *
 * All reject with a SealingError: `SEALING_DENIED`, `SEALING_THROTTLED`, `SEALING_UNAVAILABLE`, `SEALING_KEY_DISABLED`, `SEALING_LIMIT`; `unwrap` also
 * with `SEALING_TAMPERED` for other bytes or another context.
 */
export interface Kms {
  /** A new data key of 32 bytes. */
  generate(context: KmsContext): Promise<DataKey>;
  /** Wraps a key that is known, with the KMS key of today. */
  wrap(plaintext: Uint8Array, context: KmsContext): Promise<WrappedKey>;
  unwrap(key: WrappedKey, context: KmsContext): Promise<Uint8Array>;
}
