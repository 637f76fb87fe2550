import { transaction } from '../../database/index.ts';
import { keyNameOf } from '../sealed-text.ts';
import type { Subject } from '../wrapped-key.ts';
import type { ApplyOptions } from './apply.ts';
import { clearColumns } from './columns.ts';
import { pseudonymous } from './pseudonyms.ts';

/**
 * When no cache has the keys any longer: clears the columns once more, and has consumers do so. Until then somebody may have written who had
 * opened the values, or made a blind index of them, just before.
 */
export async function announceAgain({ pool, erasable, announce }: ApplyOptions, number: number): Promise<void> {
  await transaction(pool, async (tx) => {
    const { rows } = await tx.query(
      `update vault.erasure set announce_again_at = null
        where number = $1 and announce_again_at is not null
       returning key_names as names, subject_hmac as hmac`,
      [number],
    );
    const [entry] = rows as { readonly names: string[]; readonly hmac: Buffer }[];
    if (entry === undefined) return;
    const keys = await tx.query(
      `select distinct k.subject_kind as kind, k.subject_id as id
         from vault.subject_key k
        where (k.class, k.key_id, k.version) in (select n.class, n."keyId", n.version
                                                   from jsonb_to_recordset($1::jsonb) as n (class text, "keyId" text, version integer))
          and k.subject_kind <> $2`,
      [JSON.stringify(entry.names.map(keyNameOf)), pseudonymous(entry.hmac).kind],
    );
    const [subject] = keys.rows as Subject[];
    if (subject === undefined) return;
    const named = [...new Set(entry.names.map((name) => keyNameOf(name).class))].toSorted();
    const kept = await tx.query(
      `select distinct class from vault.restricted_key where subject_kind = $1 and subject_id = $2`,
      [subject.kind, subject.id],
    );
    const restricted = kept.rows.map((row) => row.class as string).filter((name) => named.includes(name));
    const classes = named.filter((name) => !restricted.includes(name));
    await clearColumns(tx, erasable, subject, classes);
    await announce(tx, { subject, classes, restricted: restricted.toSorted(), pass: 2 });
  });
}
