import { createHmac, createSecretKey, type KeyObject } from 'node:crypto';
import { lengthPrefixed, lowerCaseUuid } from '../associated-data.ts';
import type { Kms, KmsContext } from '../keyring/kms.ts';
import type { Subject } from '../wrapped-key.ts';
import { ErasureError } from './errors.ts';
import type { ErasureLog } from './log.ts';

/** Names persons in the log as only those can recognise who know the person and have the key. */
export interface Pseudonyms {
  /** HMAC-SHA-256 under a key that lies in the log, wrapped by KMS; the first call makes it. 32 bytes. */
  of(subject: Subject): Promise<Buffer>;
  /** The same, where the log has a key. */
  known(subject: Subject): Promise<Buffer | null>;
}

const LABEL = 'sealed-outbox.erasure.1';
const PREFIX = 'subject-key/';
const FORMAT = 1;

/** A person of whom only the pseudonym is known, as the vault's rows name one. */
export function pseudonymous(subjectHmac: Buffer): Subject {
  return { kind: LABEL, id: subjectHmac.toString('base64url') };
}

export function createPseudonyms(vault: string, log: ErasureLog, kms: Kms): Pseudonyms {
  const context: KmsContext = { vault, class: 'erasure', version: '1', purpose: 'erasure' };
  const hmac = (key: KeyObject, { kind, id }: Subject): Buffer =>
    createHmac('sha256', key)
      .update(lengthPrefixed([LABEL, vault, kind, lowerCaseUuid(id)]))
      .digest();

  const load = async (): Promise<KeyObject | null> => {
    let newest: string | undefined;
    for await (const name of log.list(PREFIX, '')) newest = name;
    return newest === undefined ? null : secretKey(await kms.unwrap(decode(await log.read(newest)), context));
  };

  const create = async (): Promise<KeyObject | null> => {
    const { plaintext, kmsKey, wrapped } = await kms.generate(context);
    const text = { format: FORMAT, kmsKey, wrapped: Buffer.from(wrapped).toString('base64') };
    const isOurs = await log.create(`${PREFIX}000001.json`, Buffer.from(JSON.stringify(text)));
    return isOurs ? secretKey(plaintext) : load();
  };

  let key: KeyObject | null = null;
  return {
    async known(subject) {
      key ??= await load();
      return key === null ? null : hmac(key, subject);
    },
    async of(subject) {
      key ??= (await load()) ?? (await create());
      if (key === null) throw damaged();
      return hmac(key, subject);
    },
  };
}

function decode(content: Uint8Array): { readonly kmsKey: string; readonly wrapped: Uint8Array } {
  try {
    const { format, kmsKey, wrapped } = JSON.parse(Buffer.from(content).toString('utf8')) as Record<string, unknown>;
    if (format === FORMAT && typeof kmsKey === 'string' && typeof wrapped === 'string') {
      return { kmsKey, wrapped: Buffer.from(wrapped, 'base64') };
    }
  } catch {
    // The same as a text of another form.
  }
  throw damaged();
}

function damaged(): ErasureError {
  return new ErasureError(
    'ERASURE_LOG_DAMAGED',
    'The key of the log of erasures cannot be read. Nothing was written. Check that it is the log of this vault (docs/runbooks/erasure.md).',
  );
}

function secretKey(plaintext: Uint8Array): KeyObject {
  const secret = createSecretKey(plaintext);
  plaintext.fill(0);
  return secret;
}
