import { createSecretKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import {
  openValue,
  type SealingContext,
  sealValue,
  subjectKey,
  unwrapSubjectKey,
  type WrappingContext,
  wrapSubjectKey,
} from '../../../shared/sealing/index.ts';
import { associatedData } from '../../../shared/sealing/associated-data.ts';
import { encodePlaintext } from '../../../shared/sealing/plaintext.ts';
import { codeOf } from '../../support/sealing.ts';

interface Key {
  readonly class: string;
  readonly keyId: string;
  readonly version: number;
  readonly secret: string;
}

interface Vectors {
  readonly values: readonly {
    readonly comment: string;
    readonly key: Key;
    readonly context: SealingContext;
    readonly salt: string;
    readonly value: unknown;
    readonly aad: string;
    readonly plaintext: string;
    readonly sealed: string;
  }[];
  readonly wrapped: readonly {
    readonly branchSecret: string;
    readonly key: Key;
    readonly context: WrappingContext;
    readonly salt: string;
    readonly wrapped: string;
  }[];
}

const vectors = JSON.parse(await readFile('test/vectors/sealing.json', 'utf8')) as Vectors;
const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex');
const keyOf = (key: Key): ReturnType<typeof subjectKey> => subjectKey(key, bytes(key.secret));

it.each(vectors.values)('seals and opens as the other implementation does: $comment, $value', (vector) => {
  const key = keyOf(vector.key);
  expect(encodePlaintext(vector.value).toString('hex')).toBe(vector.plaintext);
  expect(associatedData(key, vector.context).toString('hex')).toBe(vector.aad);
  expect(sealValue(vector.value, key, vector.context, () => bytes(vector.salt))).toBe(vector.sealed);
  expect(openValue(vector.sealed, key, vector.context)).toStrictEqual(vector.value);
});

it.each(vectors.wrapped)('wraps and unwraps keys as the other implementation does: $context.subject', (vector) => {
  const branch = createSecretKey(bytes(vector.branchSecret));
  const key = keyOf(vector.key);
  expect(wrapSubjectKey(branch, key, vector.context, () => bytes(vector.salt)).toString('hex')).toBe(vector.wrapped);
  const unwrapped = unwrapSubjectKey(branch, bytes(vector.wrapped), key, vector.context);
  expect(unwrapped.secret.export().toString('hex')).toBe(vector.key.secret);
});

it('a wrapped key opens in its own row of its own vault only', () => {
  const { branchSecret, key: name, context, wrapped } = vectors.wrapped[0]!;
  const branch = createSecretKey(bytes(branchSecret));
  const unwrap = (key: Key, at: WrappingContext, data = bytes(wrapped)): string =>
    codeOf(() => unwrapSubjectKey(branch, data, key, at));
  expect(unwrap(name, { ...context, vault: 'orders' })).toBe('SEALING_TAMPERED');
  expect(unwrap(name, { ...context, branchVersion: 4 })).toBe('SEALING_TAMPERED');
  expect(unwrap(name, { ...context, subject: { kind: 'customer', id: 'other' } })).toBe('SEALING_TAMPERED');
  expect(unwrap(name, { ...context, subject: { ...context.subject, kind: 'staff' } })).toBe('SEALING_TAMPERED');
  expect(unwrap({ ...name, class: 'tax' }, context)).toBe('SEALING_TAMPERED');
  expect(unwrap({ ...name, version: 2 }, context)).toBe('SEALING_TAMPERED');
  expect(unwrap({ ...name, keyId: 'AAAAAAAAAAAAAAAAAAAAAA' }, context)).toBe('SEALING_TAMPERED');
  expect(unwrap(name, context, bytes(`02${wrapped.slice(2)}`))).toBe('SEALING_MALFORMED');
  expect(unwrap(name, context, bytes(wrapped.slice(0, -2)))).toBe('SEALING_MALFORMED');
  const changed = bytes(wrapped);
  changed[40]! ^= 1;
  expect(unwrap(name, context, changed)).toBe('SEALING_TAMPERED');
});
