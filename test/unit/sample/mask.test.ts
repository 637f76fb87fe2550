import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { maskEmail, maskIban, maskName, maskTaxId, maskText } from '../../../functions/sample/api/mask.ts';

describe('a masked value', () => {
  it.each([
    [maskName, 'Ada Lovelace', 'A••• L•••'],
    [maskName, '  İpek\u00a0Ø  ', 'İ••• Ø•••'],
    [maskName, '👩‍🚀 Neil', '👩‍🚀••• N•••'],
    [maskEmail, 'ada@lovelace.example', 'a•••@•••.example'],
    [maskEmail, '"a@b"@localhost', '"•••@•••'],
    [maskEmail, 'ı@x.co.uk', 'ı•••@•••.uk'],
    [maskIban, 'TR330006100519786457841326', '•••1326'],
    [maskTaxId, '1234567890', '•••90'],
    [maskText, 'anything', '•••'],
  ])('%o of %j is %j', (mask, value, masked) => {
    expect(mask(value)).toBe(masked);
  });

  it('says nothing about how long a word or an address is', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z]{1,40}$/), fc.stringMatching(/^[a-z]{1,40}$/), (one, other) => {
        expect(maskName(`x${one}`)).toBe(maskName(`x${other}`));
        expect(maskEmail(`x${one}@${one}.org`)).toBe(maskEmail(`x${other}@${other}.org`));
      }),
    );
  });
});
