import { randomBytes } from 'node:crypto';
import type { Random } from '../cipher.ts';
import { SealingError } from '../errors.ts';
import { type SubjectKey, subjectKey } from '../value.ts';
import { type Subject, wrapSubjectKey } from '../wrapped-key.ts';
import { openBranch, type RotationPorts } from './branch.ts';

/**
 * Gives a person a new version of its key for a class, because the old one may have become known: what is sealed from now on (within five minutes, by the
 * caches of writers) is sealed with it. What was sealed before still opens, with the old version: reseal rows to take them away from it.
 *
 * @returns the version that is the newest now, or `erased`: the person was erased, and nothing was added
 * @throws SealingError `SEALING_KEY_UNKNOWN`: the person has no key of the class; and what `Kms.unwrap` and the vault reject with. Nothing was added.
 */
export async function renewSubjectKey(
  ports: RotationPorts,
  className: string,
  subject: Subject,
  random: Random = randomBytes,
): Promise<number | 'erased'> {
  const newest = await ports.vault.newestSubject(className, subject);
  const branch = (await ports.vault.branches()).find((row) => row.class === className && row.active);
  if (newest === null || branch === undefined) {
    throw new SealingError('SEALING_KEY_UNKNOWN', `The person has no key of class '${className}'. None was added.`);
  }
  if (newest.wrapped === null) return 'erased';
  const secret = await openBranch(ports, branch);
  const key: SubjectKey = subjectKey({ ...newest, version: newest.version + 1 }, random(32));
  const context = { vault: ports.name, branchVersion: branch.version, subject: newest.subject };
  const { class: _, keyId, version } = key;
  const wrapped = wrapSubjectKey(secret, key, context, random);
  await ports.vault.succeedSubject({
    class: className,
    keyId,
    version,
    subject: newest.subject,
    branchVersion: branch.version,
    wrapped,
  });
  // Where it was not added, another was faster or the person is being erased: what stands is the answer.
  const standing = await ports.vault.newestSubject(className, subject);
  return standing === null || standing.wrapped === null ? 'erased' : standing.version;
}
