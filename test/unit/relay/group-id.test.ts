import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { messageGroupId } from '../../../shared/outbox/publish/group-id.ts';

const FORMS = ['aggregate-id', 'aggregate-type-and-id'] as const;
const types = fc.stringMatching(/^[a-z][a-z0-9.-]{0,127}$/);
const ids = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 200 }),
  fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 200 }),
);
const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

describe('the message group of an aggregate', () => {
  it('is always what SQS takes: 1 to 128 of ASCII letters, digits and punctuation', () => {
    fc.assert(
      fc.property(fc.constantFrom(...FORMS), types, ids, (form, type, id) => {
        expect(messageGroupId(form, type, id)).toMatch(/^[a-zA-Z0-9!"#$%&'()*+,\-./:;<=>?@[\\\]^_`{|}~]{1,128}$/);
      }),
    );
  });

  it('is the id itself where SQS takes it', () => {
    expect(messageGroupId('aggregate-id', 'invoice', '42')).toBe('42');
    expect(messageGroupId('aggregate-type-and-id', 'invoice', '42')).toBe('invoice/42');
    expect(messageGroupId('aggregate-id', 'invoice', `!~${'x'.repeat(126)}`)).toBe(`!~${'x'.repeat(126)}`);
  });

  it('is a hash where the id is longer than 128', () => {
    expect(messageGroupId('aggregate-id', 'invoice', 'x'.repeat(128))).toBe('x'.repeat(128));
    expect(messageGroupId('aggregate-id', 'invoice', 'x'.repeat(129))).toBe(sha256('x'.repeat(129)));
    // The type counts: 8 characters of it leave 120.
    expect(messageGroupId('aggregate-type-and-id', 'invoice', 'x'.repeat(120))).toBe(`invoice/${'x'.repeat(120)}`);
    expect(messageGroupId('aggregate-type-and-id', 'invoice', 'x'.repeat(121))).toBe(
      sha256(`invoice/${'x'.repeat(121)}`),
    );
  });

  it.each([' ', 'a b', 'fatura-ı', 'ü', '\n', '\u007f', '😀'])(
    'is a hash where the grammar forbids the id: %j',
    (id) => {
      expect(messageGroupId('aggregate-id', 'invoice', id)).toBe(sha256(id));
    },
  );

  it('case 56: keeps invoice 42 and payment 42 apart where two types share a queue', () => {
    const form = 'aggregate-type-and-id';
    expect(messageGroupId(form, 'invoice', '42')).not.toBe(messageGroupId(form, 'payment', '42'));
    expect(messageGroupId(form, 'invoice', 'ü')).not.toBe(messageGroupId(form, 'payment', 'ü'));
  });

  it('case 56: never takes a part of the type for a part of the id, because no type holds a slash', () => {
    const form = 'aggregate-type-and-id';
    fc.assert(
      fc.property(types, types, ids, (type, other, id) => {
        fc.pre(type !== other);
        expect(messageGroupId(form, type, id)).not.toBe(messageGroupId(form, other, id));
      }),
    );
    expect(messageGroupId(form, 'a', 'b:c')).not.toBe(messageGroupId(form, 'a:b', 'c'));
    expect(messageGroupId(form, 'a', 'b.c')).not.toBe(messageGroupId(form, 'a.b', 'c'));
  });
});
