import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, randomFillSync } from 'node:crypto';

interface Encrypted {
  readonly ciphertext: Buffer;
  readonly tag: Buffer;
}

/** What node:crypto takes for one value, with nothing of ours around it. */
export function primitives(): { readonly seal: () => Encrypted; readonly open: () => Buffer } {
  const OPTIONS = { authTagLength: 16 };
  const [secret, salt, plaintext, aad] = [randomBytes(32), randomBytes(16), randomBytes(48), randomBytes(200)] as const;
  const derive = (): [Uint8Array, Uint8Array] => {
    const okm = hkdfSync('sha256', secret, salt, 'sealed-outbox.value.1', 44);
    return [new Uint8Array(okm, 0, 32), new Uint8Array(okm, 32)];
  };
  const encrypt = (): Encrypted => {
    const cipher = createCipheriv('aes-256-gcm', ...derive(), OPTIONS).setAAD(aad);
    const ciphertext = cipher.update(plaintext);
    cipher.final();
    return { ciphertext, tag: cipher.getAuthTag() };
  };
  const { ciphertext, tag } = encrypt();
  return {
    seal() {
      randomFillSync(Buffer.allocUnsafe(16));
      return encrypt();
    },
    open() {
      const decipher = createDecipheriv('aes-256-gcm', ...derive(), OPTIONS)
        .setAAD(aad)
        .setAuthTag(tag);
      const opened = decipher.update(ciphertext);
      decipher.final();
      return opened;
    },
  };
}
