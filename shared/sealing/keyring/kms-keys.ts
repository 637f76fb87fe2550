import type {
  DecryptCommandInput,
  DecryptCommandOutput,
  EncryptCommandInput,
  EncryptCommandOutput,
  GenerateDataKeyCommandInput,
  GenerateDataKeyCommandOutput,
} from '@aws-sdk/client-kms';
import { SealingError, type SealingErrorCode } from '../errors.ts';
import type { Kms, KmsContext } from './kms.ts';
import { isSameKmsKey } from './kms-key-arn.ts';

interface CallOptions {
  readonly abortSignal: AbortSignal;
}

/** What is asked of AWS KMS: the SDK's `KMS`, or a part of it that bundles smaller. */
export interface KmsCalls {
  generateDataKey(input: GenerateDataKeyCommandInput, options: CallOptions): Promise<GenerateDataKeyCommandOutput>;
  encrypt(input: EncryptCommandInput, options: CallOptions): Promise<EncryptCommandOutput>;
  decrypt(input: DecryptCommandInput, options: CallOptions): Promise<DecryptCommandOutput>;
}

export interface KmsKeysOptions {
  /** With `maxAttempts: 1`: whoever waits for keys decides whether to try again. */
  readonly client: KmsCalls;
  /** ARN of the symmetric KMS key that wraps. No alias: it may come to mean another key. */
  readonly keyArn: string;
  /** A call that takes longer is given up. Milliseconds; default: 3,000. */
  readonly timeoutMs?: number;
}

const ARN = /^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key\/[A-Za-z0-9-]+$/;

/** What KMS calls an error, in the keyring's words. All others, of the network too, say nothing of the key: unavailable. */
export const KMS_ERRORS: Readonly<Record<string, SealingErrorCode>> = {
  ThrottlingException: 'SEALING_THROTTLED',
  Throttling: 'SEALING_THROTTLED',
  TooManyRequestsException: 'SEALING_THROTTLED',
  RequestLimitExceeded: 'SEALING_THROTTLED',
  LimitExceededException: 'SEALING_THROTTLED',
  AccessDeniedException: 'SEALING_DENIED',
  InvalidGrantTokenException: 'SEALING_DENIED',
  UnrecognizedClientException: 'SEALING_DENIED',
  InvalidClientTokenId: 'SEALING_DENIED',
  OptInRequired: 'SEALING_DENIED',
  DisabledException: 'SEALING_KEY_DISABLED',
  // Pending deletion, mostly.
  KMSInvalidStateException: 'SEALING_KEY_DISABLED',
  NotFoundException: 'SEALING_KEY_DISABLED',
  InvalidKeyUsageException: 'SEALING_KEY_DISABLED',
  InvalidCiphertextException: 'SEALING_TAMPERED',
  IncorrectKeyException: 'SEALING_TAMPERED',
  ValidationException: 'SEALING_MALFORMED',
};

/**
 * Branch keys wrapped by AWS KMS. A role needs `kms:GenerateDataKey` (writers) and `kms:Decrypt` on the key; a condition on
 * `kms:EncryptionContext:class` gives it one class and not another.
 *
 * ```ts
 * const kms = kmsKeys({ client: new KMS({ maxAttempts: 1 }), keyArn });
 * ```
 */
export function kmsKeys({ client, keyArn, timeoutMs = 3_000 }: KmsKeysOptions): Kms {
  if (!ARN.test(keyArn)) throw new TypeError('keyArn must be the ARN of a KMS key, not an alias or an id.');
  return {
    async generate(context) {
      const answer = await ask(timeoutMs, (options) =>
        client.generateDataKey({ KeyId: keyArn, KeySpec: 'AES_256', EncryptionContext: contextOf(context) }, options),
      );
      return {
        kmsKey: answer.KeyId ?? keyArn,
        plaintext: bytes(answer.Plaintext),
        wrapped: bytes(answer.CiphertextBlob),
      };
    },
    async wrap(plaintext, context) {
      const answer = await ask(timeoutMs, (options) =>
        client.encrypt({ KeyId: keyArn, Plaintext: plaintext, EncryptionContext: contextOf(context) }, options),
      );
      return { kmsKey: answer.KeyId ?? keyArn, wrapped: bytes(answer.CiphertextBlob) };
    },
    async unwrap({ kmsKey, wrapped }, context) {
      // What a multi-Region key has wrapped elsewhere, its replica here opens.
      const KeyId = isSameKmsKey(kmsKey, keyArn) ? keyArn : kmsKey;
      const answer = await ask(timeoutMs, (options) =>
        client.decrypt({ KeyId, CiphertextBlob: wrapped, EncryptionContext: contextOf(context) }, options),
      );
      return bytes(answer.Plaintext);
    },
  };
}

function contextOf({ vault, class: className, version, purpose }: KmsContext): Record<string, string> {
  return { vault, class: className, version, purpose };
}

/** What a connection says that was kept, and that the other end has forgotten while the sandbox was frozen: the first call on it, and no other, fails so. */
const FORGOTTEN: ReadonlySet<string> = new Set(['ECONNRESET', 'EPIPE']);

async function ask<T>(timeoutMs: number, call: (options: CallOptions) => Promise<T>): Promise<T> {
  const abortSignal = AbortSignal.timeout(timeoutMs);
  const once = async (): Promise<T> => call({ abortSignal });
  try {
    return await once().catch((error: unknown) => {
      if (abortSignal.aborted || !FORGOTTEN.has(nameOf(error))) throw error;
      return once();
    });
  } catch (error) {
    // The SDK calls every abort AbortError.
    throw abortSignal.aborted ? sealingError('TimeoutError') : sealingError(nameOf(error));
  }
}

/** The SDK names the service's errors in `name`, those of the network in `code`. */
function nameOf(error: unknown): string {
  const { name, code } = error as { readonly name?: unknown; readonly code?: unknown };
  const called = typeof code === 'string' ? code : name;
  return typeof called === 'string' && /^[A-Za-z][A-Za-z0-9_.]{1,60}$/.test(called) ? called : 'Unknown';
}

function sealingError(name: string): SealingError {
  const code = Object.hasOwn(KMS_ERRORS, name) ? KMS_ERRORS[name] : undefined;
  return new SealingError(code ?? 'SEALING_UNAVAILABLE', `KMS did not give the key: ${name}.`);
}

function bytes(part: Uint8Array | undefined): Uint8Array {
  if (part === undefined) throw sealingError('EmptyAnswer');
  return part;
}
