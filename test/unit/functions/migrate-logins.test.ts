import { describe, expect, it } from 'vitest';
import { loginsFrom } from '../../../functions/migrate/logins.ts';
import { giveVault } from '../../../shared/sealing/index.ts';

describe('DATABASE_LOGINS', () => {
  it('is a list of users and their roles', () => {
    expect(loginsFrom('[{"user":"sealed_relay","roles":["outbox_relay"]},{"user":"a","roles":[]}]')).toEqual([
      { user: 'sealed_relay', roles: ['outbox_relay'] },
      { user: 'a', roles: [] },
    ]);
    expect(loginsFrom('[{"user":"a","roles":[],"connections":40}]')).toEqual([
      { user: 'a', roles: [], connections: 40 },
    ]);
    const withClasses = {
      user: 'a',
      roles: [],
      vault: { reads: ['tax'], creates: ['contact'], indexes: { email: 'contact' } },
    };
    expect(loginsFrom(JSON.stringify([withClasses]))).toEqual([withClasses]);
    expect(loginsFrom('[]')).toEqual([]);
  });

  it.each([
    undefined,
    '',
    '{',
    '{}',
    'null',
    '[null]',
    '[{"user":"a"}]',
    '[{"user":1,"roles":[]}]',
    '[{"user":"a","roles":[1]}]',
    '[{"user":"a","roles":[],"connections":0}]',
    '[{"user":"a","roles":[],"connections":1.5}]',
    '[{"user":"a","roles":[],"connections":"40"}]',
    '[{"user":"a","roles":[],"vault":null}]',
    '[{"user":"a","roles":[],"vault":{"reads":["tax"]}}]',
    '[{"user":"a","roles":[],"vault":{"reads":[],"creates":[],"indexes":["email"]}}]',
    '[{"user":"a","roles":[],"vault":{"reads":[],"creates":[],"indexes":{"email":1}}}]',
    '[{"user":"a","roles":[],"vault":{"reads":["tax"],"creates":"contact"}}]',
  ])('is refused as %s before anything is done', (variable) => {
    expect(() => loginsFrom(variable)).toThrow(expect.objectContaining({ code: 'LOGINS_SETTING' }));
  });
});

describe('what a login gets in the vault', () => {
  it('is what it declares, and nothing where it declares nothing', async () => {
    const asked: unknown[] = [];
    const client = {
      query: async (text: string, values: readonly unknown[] = []) => {
        asked.push([/set_\w+/.exec(text)?.[0], ...values]);
        return { rows: [], rowCount: 1 };
      },
    };
    await giveVault(client, [
      { user: 'a', vault: { reads: ['tax'], creates: ['contact'], indexes: { email: 'contact' } } },
      { user: 'b' },
    ]);
    expect(asked).toEqual([
      ['set_access', 'a', ['tax'], ['contact']],
      ['set_index_access', 'a', '{"email":"contact"}'],
      ['set_access', 'b', [], []],
      ['set_index_access', 'b', '{}'],
    ]);
  });
});
