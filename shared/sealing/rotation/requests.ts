import { lowerCaseUuid } from '../associated-data.ts';
import { SealingError } from '../errors.ts';
import { inVault } from '../keyring/postgres-vault.ts';
import type { Subject } from '../wrapped-key.ts';
import type { RotationConnection } from './postgres-rotation.ts';

/** Keys that people asked to have replaced. */
export interface RotationRequests {
  /** Classes whose branch key is to be replaced. */
  readonly rotate: readonly string[];
  /** Blind indexes whose key is. */
  readonly rotateIndex: readonly string[];
  /** Persons whose key of a class is to get a new version. */
  readonly renew: readonly { readonly class: string; readonly subject: Subject }[];
}

/**
 * What is asked for and not done yet, in the classes in which the login may create. A request is over when the key that it is about has a later version, so a run may end
 * anywhere. Role: `vault_rotator`.
 *
 * @throws SealingError `SEALING_DENIED`, `SEALING_UNAVAILABLE`
 */
export async function takeRotationRequests(db: RotationConnection): Promise<RotationRequests> {
  const { rows } = await inVault(
    db.query(
      `select class, index_name as "index", subject_kind as kind, subject_id as id from vault.take_rotation_requests()`,
      [],
    ),
  );
  const asked = rows as readonly { class: string; index: string | null; kind: string | null; id: string | null }[];
  return {
    rotate: asked.flatMap((row) => (row.index === null && row.kind === null ? [row.class] : [])),
    rotateIndex: asked.flatMap(({ index }) => index ?? []),
    renew: asked.flatMap(({ class: className, kind, id }) =>
      kind === null || id === null ? [] : [{ class: className, subject: { kind, id } }],
    ),
  };
}

/** A key that wraps or indexes, without its bytes. */
export interface ListedKey {
  /** `branch`, or `index` and its name. */
  readonly key: string;
  readonly class: string;
  readonly version: number;
  /** `next`, `active` or `retired`. */
  readonly state: string;
  /** ARN of the KMS key that has wrapped it. */
  readonly kmsKey: string;
  readonly ageSeconds: number;
  /** For how long another one is asked for; null: none is. */
  readonly requestedSeconds: number | null;
}

/** All branch and index keys that are not destroyed. Role: `vault_operator`. @throws SealingError `SEALING_DENIED`, `SEALING_UNAVAILABLE` */
export async function listKeys(db: RotationConnection): Promise<ListedKey[]> {
  const { rows } = await inVault(
    db.query(
      `select key, class, version, state, kms_key as "kmsKey", age as "ageSeconds", requested as "requestedSeconds"
         from vault.list_keys()`,
      [],
    ),
  );
  return rows as ListedKey[];
}

/**
 * Asks the janitor for another key: of a class, of a blind index, or of a person in a class. It is made in its next run. Role: `vault_operator`.
 *
 * @returns false: it was asked for before, and is not done yet
 * @throws SealingError `SEALING_KEY_UNKNOWN`: there is no such key, or the person is erased, and nothing was asked for; `SEALING_DENIED`, `SEALING_UNAVAILABLE`
 */
export async function requestRotation(
  db: RotationConnection,
  key: { readonly class: string; readonly subject?: Subject } | { readonly index: string },
): Promise<boolean> {
  const asking =
    'index' in key
      ? db.query('select vault.request_index_rotation($1) as asked', [key.index])
      : db.query('select vault.request_rotation($1, $2, $3) as asked', [
          key.class,
          key.subject?.kind ?? null,
          key.subject === undefined ? null : lowerCaseUuid(key.subject.id),
        ]);
  const unknown = (error: Error & { code?: string }): null => {
    if (error.code === 'VA004') return null;
    throw error;
  };
  const answer = await inVault(asking.catch(unknown));
  if (answer !== null) return (answer.rows[0] as { readonly asked: boolean }).asked;
  throw new SealingError(
    'SEALING_KEY_UNKNOWN',
    'There is no such key that could be replaced, or its person is erased. Nothing was asked for.',
  );
}
