import { SealedOutboxError } from '../../../shared/errors/index.ts';
import type { vaultCommands } from '../../../shared/operations/index.ts';
import { type ErasureAnswer, listKeys, readErasureOverview, requestRotation } from '../../../shared/sealing/index.ts';
import type { Erasing } from '../erasing.ts';
import type { Answer, Runners, Tools } from './tools.ts';

/** What was asked of the janitor. */
const asked = (isNew: boolean): Answer => ({
  requested: isNew ? 'now' : 'before',
  next: 'the janitor does it in its next run, within five minutes',
});

export const vaultRunners: Runners<keyof typeof vaultCommands> = {
  'keys list': async ({ db }) => ({ keys: await listKeys(db) }),
  rotate: async ({ db }, { class: className }) => asked(await requestRotation(db, { class: className })),
  'rotate-index': async ({ db }, { index }) => asked(await requestRotation(db, { index })),
  renew: async ({ db }, { class: className, ...subject }) =>
    asked(await requestRotation(db, { class: className, subject })),
  'erasures status': async ({ db }) => ({ ...(await readErasureOverview(db)) }),
  'erasures show': async (tools, subject) => {
    const { erasure } = await erasingOf(tools);
    return known(await erasure.status(subject));
  },
  'erasures cancel': async (tools, subject) => {
    const { erasure } = await erasingOf(tools);
    const cancelled = await erasure.cancel(subject);
    if (cancelled.length > 0) return { cancelled };
    known(await erasure.status(subject));
    throw new SealedOutboxError(
      'NOTHING_TO_CANCEL',
      'nothing of this person waits to be erased: what is erased or kept stays so. Nothing was changed.',
    );
  },
  erase: async (tools, subject) => {
    const { erasure, keptSince } = await erasingOf(tools);
    const since = await keptSince(subject);
    return known(await erasure.erase({ subject, ...(since && { since }) }));
  },
};

async function erasingOf({ erasing }: Tools): Promise<Erasing> {
  if (erasing !== undefined) {
    const opened = await erasing();
    await opened.ready();
    return opened;
  }
  throw new SealedOutboxError(
    'ERASURE_ELSEWHERE',
    'this function may erase nobody. Nothing was done. Give its Operator `erases`, or use what else erases persons.',
  );
}

/** @throws SealedOutboxError `PERSON_UNKNOWN` */
function known({ outcome, classes }: ErasureAnswer): Answer {
  if (outcome !== 'unknown') return { outcome, classes };
  throw new SealedOutboxError(
    'PERSON_UNKNOWN',
    'the vault has no key of this person: there is nothing to erase. Nothing was changed. Look at kind and id again.',
  );
}
