import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, type TestContext } from 'vitest';

/** Wycheproof's files (C2SP/wycheproof, Apache-2.0) are no part of this project: they are read where this variable says. */
const DIRECTORY = process.env['SEALED_OUTBOX_WYCHEPROOF'];

interface Group<Test> {
  readonly keySize: number;
  readonly ivSize?: number;
  readonly tagSize?: number;
  readonly tests: readonly (Test & { readonly tcId: number; readonly result: 'valid' | 'invalid' })[];
}

function groupsOf<Test>(context: TestContext, file: string): readonly Group<Test>[] {
  if (DIRECTORY === undefined) {
    return context.skip(
      `Wycheproof's ${file} is not here: set SEALED_OUTBOX_WYCHEPROOF to the directory that holds it`,
    );
  }
  const text = readFileSync(join(DIRECTORY, file), 'utf8');
  return (JSON.parse(text) as { readonly testGroups: readonly Group<Test>[] }).testGroups;
}

const hex = (text: string): Buffer => Buffer.from(text, 'hex');

it('case 37: AES-256-GCM with 96-bit nonces and 128-bit tags', (context) => {
  const groups = groupsOf<Record<'key' | 'iv' | 'aad' | 'msg' | 'ct' | 'tag', string>>(context, 'aes_gcm_test.json');
  const tests = groups
    .filter(({ keySize, ivSize, tagSize }) => keySize === 256 && ivSize === 96 && tagSize === 128)
    .flatMap((group) => group.tests);
  expect(tests.length).toBeGreaterThanOrEqual(60);
  for (const { tcId, key, iv, aad, msg, ct, tag, result } of tests) {
    const decipher = createDecipheriv('aes-256-gcm', hex(key), hex(iv), { authTagLength: 16 });
    decipher.setAAD(hex(aad)).setAuthTag(hex(tag));
    const opened = decipher.update(hex(ct));
    if (result === 'invalid') {
      expect(() => decipher.final(), `tcId ${tcId}`).toThrow();
      continue;
    }
    decipher.final();
    expect(opened.toString('hex'), `tcId ${tcId}`).toBe(msg);
    const cipher = createCipheriv('aes-256-gcm', hex(key), hex(iv), { authTagLength: 16 }).setAAD(hex(aad));
    expect(cipher.update(hex(msg)).toString('hex') + cipher.final().toString('hex'), `tcId ${tcId}`).toBe(ct);
    expect(cipher.getAuthTag().toString('hex'), `tcId ${tcId}`).toBe(tag);
  }
});

it('case 37: HKDF-SHA-256', (context) => {
  const groups = groupsOf<{ ikm: string; salt: string; info: string; size: number; okm: string }>(
    context,
    'hkdf_sha256_test.json',
  );
  const tests = groups.flatMap((group) => group.tests);
  expect(tests.length).toBeGreaterThanOrEqual(80);
  for (const { tcId, ikm, salt, info, size, okm, result } of tests) {
    const derive = (): string => Buffer.from(hkdfSync('sha256', hex(ikm), hex(salt), hex(info), size)).toString('hex');
    if (result === 'invalid') expect(derive, `tcId ${tcId}`).toThrow();
    else expect(derive(), `tcId ${tcId}`).toBe(okm);
  }
});

it('case 37: HMAC-SHA-256', (context) => {
  const groups = groupsOf<{ key: string; msg: string; tag: string }>(context, 'hmac_sha256_test.json');
  let count = 0;
  for (const { tagSize = 256, tests } of groups) {
    for (const { tcId, key, msg, tag, result } of tests) {
      const made = createHmac('sha256', hex(key))
        .update(hex(msg))
        .digest()
        .subarray(0, tagSize / 8)
        .toString('hex');
      if (result === 'valid') expect(made, `tcId ${tcId}`).toBe(tag);
      else expect(made, `tcId ${tcId}`).not.toBe(tag);
      count += 1;
    }
  }
  expect(count).toBeGreaterThanOrEqual(170);
});
