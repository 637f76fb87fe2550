import { describe, expect, it } from 'vitest';
import { blindIndex, createIndexKeys, email, type IndexVaultAnswer } from '../../../shared/sealing/index.ts';
import { fakeKms } from '../../support/keyring.ts';
import { movedClock } from '../../support/moved-clock.ts';

const byEmail = blindIndex({ name: 'customer-email', class: 'contact', normaliser: email });

/** Index keys of a vault that answers when the test wants it to. */
function heldVault() {
  const asked: ((answer: IndexVaultAnswer) => void)[] = [];
  const clock = movedClock();
  const kms = fakeKms();
  const keys = createIndexKeys({
    name: 'test',
    kms,
    clock,
    vault: {
      readIndexKeys: () => new Promise((answer) => asked.push(answer)),
      createIndexKey: async (key) => ({ ...key, version: 1, state: 'active' }),
    },
  });
  return { asked, clock, kms, keys };
}

const EMPTY: IndexVaultAnswer = { granted: [byEmail], keys: [] };

describe('keys of an index', () => {
  it('are read once for all who ask while that is under way', async () => {
    const { asked, clock, kms, keys } = heldVault();
    const first = keys.load([byEmail]);
    await clock.advance(1_000);
    const second = keys.load([byEmail]);
    expect(asked).toHaveLength(1);
    asked[0]!(EMPTY);
    await Promise.all([first, second]);
    expect(kms.calls).toHaveLength(1);
  });

  it('are read again where a read hangs, as on a connection that is dead: it holds up nobody who comes later', async () => {
    const { asked, clock, keys } = heldVault();
    void keys.load([byEmail]);
    await clock.advance(5_000);
    const later = keys.load([byEmail]);
    expect(asked).toHaveLength(2);
    asked[1]!(EMPTY);
    expect((await later).currentPrefix(byEmail)).toHaveLength(5);
  });
});
