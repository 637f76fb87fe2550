import { createCipheriv, createHmac, createSecretKey, hkdfSync } from 'node:crypto';
import { expect, it } from 'vitest';
import { decrypt, encrypt } from '../../../shared/sealing/cipher.ts';
import { codeOf } from '../../support/sealing.ts';

const hex = (text: string): Buffer => Buffer.from(text, 'hex');

it('like case 37: what NIST was shown when GCM was proposed (test case 16)', () => {
  const key = hex('feffe9928665731c6d6a8f9467308308'.repeat(2));
  const plaintext = hex(
    'd9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39',
  );
  const cipher = createCipheriv('aes-256-gcm', key, hex('cafebabefacedbaddecaf888'), { authTagLength: 16 });
  cipher.setAAD(hex('feedfacedeadbeeffeedfacedeadbeefabaddad2'));
  expect(Buffer.concat([cipher.update(plaintext), cipher.final()]).toString('hex')).toBe(
    '522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662',
  );
  expect(cipher.getAuthTag().toString('hex')).toBe('76fc6ece0f4e1768cddf8853bb2d551b');
});

it('like case 37: RFC 5869, A.1 and A.3, and RFC 4231, test case 2', () => {
  const derive = (salt: string, info: string): string =>
    Buffer.from(hkdfSync('sha256', hex('0b'.repeat(22)), hex(salt), hex(info), 42)).toString('hex');
  expect(derive('000102030405060708090a0b0c', 'f0f1f2f3f4f5f6f7f8f9')).toBe(
    '3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865',
  );
  // Without a salt, as blind indexes derive theirs.
  expect(derive('', '')).toBe('8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8');
  expect(createHmac('sha256', 'Jefe').update('what do ya want for nothing?').digest('hex')).toBe(
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  );
});

it('like case 37: a tag that differs in any one bit, or a byte more or less of anything, is refused', () => {
  const secret = createSecretKey(Buffer.alloc(32, 1));
  const aad = Buffer.from('here');
  const sealed = encrypt(secret, 'label', Buffer.from('canary'), aad, (bytes) => Buffer.alloc(bytes, 2));
  const parts = { salt: sealed.subarray(0, 16), ciphertext: sealed.subarray(16, -16), tag: sealed.subarray(-16) };
  expect(decrypt(secret, 'label', parts, aad).toString()).toBe('canary');
  for (let bit = 0; bit < 128; bit += 1) {
    const tag = Buffer.from(parts.tag);
    tag[bit >> 3]! ^= 1 << (bit & 7);
    expect(codeOf(() => decrypt(secret, 'label', { ...parts, tag }, aad))).toBe('SEALING_TAMPERED');
  }
  const others = [
    { ...parts, ciphertext: Buffer.concat([parts.ciphertext, Buffer.alloc(1)]) },
    { ...parts, ciphertext: parts.ciphertext.subarray(1) },
    { ...parts, ciphertext: Buffer.alloc(0) },
    { ...parts, salt: Buffer.alloc(16) },
    { ...parts, tag: parts.tag.subarray(0, 12) },
  ];
  for (const other of others) expect(codeOf(() => decrypt(secret, 'label', other, aad))).toBe('SEALING_TAMPERED');
  expect(codeOf(() => decrypt(secret, 'another', parts, aad))).toBe('SEALING_TAMPERED');
});
