import { describe, expect, it } from 'vitest';
import { declaredIndexes, type DeclaredIndex, email, personName, taxId } from '../../../shared/sealing/index.ts';
import { isSameKmsKey } from '../../../shared/sealing/keyring/kms-key-arn.ts';

const column = { store: 'shop', table: 'shop.customer', primaryKey: 'id', sealed: 'email', index: 'email_index' };
const declared: DeclaredIndex = { name: 'by-email', class: 'contact', normaliser: 'email', columns: [column] };

describe('indexes that are declared as data', () => {
  it('have one of the library’s normalisers, and its bits unless they say others', () => {
    const [byEmail, byName, byTaxId, byPhone] = declaredIndexes([
      declared,
      { ...declared, name: 'by-name', normaliser: 'name' },
      { ...declared, name: 'by-tax-id', normaliser: 'tax-id', bits: 24 },
      { ...declared, name: 'by-phone', normaliser: 'phone-90' },
    ]).map(({ index }) => index);
    expect(byEmail).toMatchObject({ name: 'by-email', class: 'contact', normaliser: email, bits: 256, earlier: [] });
    expect(byName?.normaliser).toBe(personName);
    expect(byTaxId).toMatchObject({ normaliser: taxId, bits: 24 });
    expect(byPhone?.normaliser.normalise('0532 1')).toBe('+905321');
  });

  it('may lie in a table of another name than the one that values were bound to', () => {
    const moved = { ...column, table: 'the customers of 2024', relation: 'archive.customer' };
    expect(declaredIndexes([{ ...declared, columns: [moved] }])[0]?.columns).toEqual([moved]);
  });

  it.each([
    ['no list', { ...declared }],
    ['an unknown normaliser', [{ ...declared, normaliser: 'soundex' }]],
    ['a country that is none', [{ ...declared, normaliser: 'phone-0' }]],
    ['no columns', [{ ...declared, columns: [] }]],
    ['a column that is SQL', [{ ...declared, columns: [{ ...column, index: 'a"; drop table b' }] }]],
    ['a table that is SQL', [{ ...declared, columns: [{ ...column, table: 'a b' }] }]],
    ['a class that is none', [{ ...declared, class: 'Contact' }]],
    ['one name twice', [declared, declared]],
  ])('are refused with %s', (_what, wrong) => {
    expect(() => declaredIndexes(wrong as DeclaredIndex[])).toThrow(TypeError);
  });
});

describe('two ARNs of KMS', () => {
  const arn = (region: string, id: string, account = '111122223333') => `arn:aws:kms:${region}:${account}:key/${id}`;
  it.each([
    ['the same', arn('eu-central-1', '1234'), arn('eu-central-1', '1234'), true],
    ['a multi-Region key and its replica', arn('eu-central-1', 'mrk-1234'), arn('eu-west-1', 'mrk-1234'), true],
    ['two multi-Region keys', arn('eu-central-1', 'mrk-1234'), arn('eu-central-1', 'mrk-5678'), false],
    ['keys of two accounts', arn('eu-west-1', 'mrk-1'), arn('eu-west-1', 'mrk-1', '444455556666'), false],
    ['one id in two Regions that is no multi-Region key', arn('eu-central-1', '1234'), arn('eu-west-1', '1234'), false],
  ])('name one key or two: %s', (_what, one, other, same) => {
    expect(isSameKmsKey(one, other)).toBe(same);
    expect(isSameKmsKey(other, one)).toBe(same);
  });
});
