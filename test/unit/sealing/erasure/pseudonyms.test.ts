import { describe, expect, it } from 'vitest';
import { createPseudonyms } from '../../../../shared/sealing/erasure/pseudonyms.ts';
import { memoryErasureLog } from '../../../support/erasure-log.ts';
import { fakeKms } from '../../../support/keyring.ts';

const ada = { kind: 'customer', id: '6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f' };

describe('pseudonyms', () => {
  it('are the same for whoever has the log and KMS, and for both spellings of a UUID', async () => {
    const [log, kms] = [memoryErasureLog(), fakeKms()];
    const first = await createPseudonyms('test', log, kms).of(ada);
    expect(first).toHaveLength(32);
    const other = createPseudonyms('test', log, kms);
    expect(await other.of({ ...ada, id: ada.id.toUpperCase() })).toEqual(first);
    expect(await other.known(ada)).toEqual(first);
  });

  it('differ by kind, id, vault, and log', async () => {
    const [log, kms] = [memoryErasureLog(), fakeKms()];
    const pseudonyms = createPseudonyms('test', log, kms);
    const texts = await Promise.all([
      pseudonyms.of(ada),
      pseudonyms.of({ ...ada, id: 'other' }),
      pseudonyms.of({ ...ada, kind: 'user' }),
      pseudonyms.of({ kind: 'customer6', id: ada.id.slice(1) }),
      createPseudonyms('test', memoryErasureLog(), kms).of(ada),
    ]);
    expect(new Set(texts.map(String)).size).toBe(5);
    await expect(createPseudonyms('other', log, kms).of(ada)).rejects.toMatchObject({ code: 'SEALING_TAMPERED' });
  });

  it('have one key, also when two make it at once; it lies in the log wrapped, for nothing else than this', async () => {
    const [log, kms] = [memoryErasureLog(), fakeKms()];
    const both = Promise.withResolvers<void>();
    let waiting = 0;
    log.beforeCreate = () => {
      waiting += 1;
      if (waiting === 2) both.resolve();
      return both.promise;
    };
    const [one, two] = await Promise.all([1, 2].map(() => createPseudonyms('test', log, kms).of(ada)));
    expect(one).toEqual(two);
    expect([...log.files.keys()]).toEqual(['subject-key/000001.json']);
    expect(kms.calls.map(({ call }) => call).toSorted()).toEqual(['generate', 'generate', 'unwrap']);
    for (const { context } of kms.calls) {
      expect(context).toEqual({ vault: 'test', class: 'erasure', version: '1', purpose: 'erasure' });
    }
  });

  it('are unknown while the log has no key, and nobody asks KMS for one', async () => {
    const [log, kms] = [memoryErasureLog(), fakeKms()];
    expect(await createPseudonyms('test', log, kms).known(ada)).toBeNull();
    expect(kms.calls).toEqual([]);
  });

  it('are refused where the key in the log cannot be read', async () => {
    const log = memoryErasureLog();
    for (const text of ['', '{}', '{"format":2,"kmsKey":"k","wrapped":"AA=="}']) {
      log.files.set('subject-key/000001.json', Buffer.from(text));
      await expect(createPseudonyms('test', log, fakeKms()).of(ada)).rejects.toMatchObject({
        code: 'ERASURE_LOG_DAMAGED',
      });
    }
  });
});
