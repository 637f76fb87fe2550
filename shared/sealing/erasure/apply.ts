import { randomBytes } from 'node:crypto';
import { type Connections, type Queryable, transaction } from '../../database/index.ts';
import { type KeyName, keyNameText } from '../sealed-text.ts';
import type { Subject } from '../wrapped-key.ts';
import { clearColumns, type ErasableColumns } from './columns.ts';
import type { ErasureEntry, NumberedEntry } from './entries.ts';
import type { Announce } from './person-erased.ts';
import { pseudonymous } from './pseudonyms.ts';

export interface ApplyOptions {
  /** With the role `vault_eraser`, those that `announce` needs, and the right to clear the columns. */
  readonly pool: Connections;
  readonly erasable: readonly ErasableColumns[];
  readonly announce: Announce;
}

/** A key stays in a cache for five minutes, and a function that has got it works for fifteen more at most. */
const ANNOUNCE_AGAIN_SECONDS = 20 * 60;

/** What names a key, as SQL reads it. */
const NAMES = `jsonb_to_recordset($1::jsonb) as n (class text, "keyId" text, version integer, until timestamptz)`;
const IS_NAMED = `k.class = n.class and k.key_id = n."keyId" and k.version = n.version`;

/**
 * Does in this database what an entry of the log says, in one transaction; nothing where it was done before. A person whom an older backup does not know
 * gets rows without bytes under the pseudonym, so that the keys are erased and not unknown.
 *
 * @returns whether it was not done before
 */
export async function applyEntry(
  { pool, erasable, announce }: ApplyOptions,
  { number, subjectHmac, erased, restricted }: NumberedEntry,
  known?: Subject,
): Promise<boolean> {
  return transaction(pool, async (tx) => {
    // One after the other: this is the row of which everybody gets the highest number that is done without gaps.
    await tx.query('select from vault.erasure_position for update');
    const done = await tx.query('select from vault.erasure where number = $1', [number]);
    if (done.rowCount !== 0) return false;

    const subject = known ?? (await subjectOf(tx, subjectHmac, [...erased, ...restricted]));
    const taken = await takeKeys(tx, { subjectHmac, erased, restricted }, subject);
    let changed = taken > 0;
    if (subject !== null) {
      const classes = classesOf(erased);
      const cleared = await clearColumns(tx, erasable, subject, classes);
      changed ||= cleared > 0;
      if (changed) await announce(tx, { subject, classes, restricted: classesOf(restricted), pass: 1 });
    }
    await tx.query(
      `insert into vault.erasure (number, key_names, subject_hmac, announce_again_at)
       values ($1, $2, $3, case when $4 then now() + $5 * interval '1 second' end)`,
      [
        number,
        [...erased, ...restricted].map(keyNameText),
        subjectHmac,
        changed && subject !== null,
        ANNOUNCE_AGAIN_SECONDS,
      ],
    );
    if (subject !== null) await endRequests(tx, subject);
    await advance(tx);
    return true;
  });
}

/** Takes the bytes away, and adds rows for keys that are not there. @returns how many rows that changed */
async function takeKeys(tx: Queryable, entry: ErasureEntry, subject: Subject | null): Promise<number> {
  const all = JSON.stringify([...entry.erased, ...entry.restricted]);
  const { kind, id } = subject ?? pseudonymous(entry.subjectHmac);
  // Whoever adds a version of a key locks the one before: it is done before this, or finds that the person is erased.
  await tx.query(
    `select from vault.subject_key k
      where k.class = any ($1) and k.subject_kind = $2 and k.subject_id = $3
      order by k.class, k.version
        for update`,
    [[...classesOf(entry.erased), ...classesOf(entry.restricted)], kind, id],
  );
  // Also a version that was added since the entry was written: what must be kept is not destroyed with the others.
  await tx.query(
    `insert into vault.restricted_key
            (class, key_id, version, subject_kind, subject_id, subject_hmac, branch_version, wrapped, keep_until)
     select k.class, k.key_id, k.version, k.subject_kind, k.subject_id, $2, k.branch_version, k.wrapped, n.until
       from vault.subject_key k
       join (select n.class, max(n.until) as until from ${NAMES} group by n.class) n on n.class = k.class
      where k.subject_kind = $3 and k.subject_id = $4 and k.wrapped is not null
     on conflict do nothing`,
    [JSON.stringify(entry.restricted), entry.subjectHmac, kind, id],
  );
  const nulled = await tx.query(
    `update vault.subject_key k
        set wrapped = null
      where k.subject_kind = $2 and k.subject_id = $3 and k.wrapped is not null
        and (k.class = any ($4) or exists (select from ${NAMES} where ${IS_NAMED}))`,
    [JSON.stringify(entry.erased), kind, id, classesOf(entry.restricted)],
  );
  const destroyed = await tx.query(`delete from vault.restricted_key k using ${NAMES} where ${IS_NAMED}`, [
    JSON.stringify(entry.erased),
  ]);
  const added = await tx.query(
    `insert into vault.subject_key (class, key_id, version, subject_kind, subject_id)
     select n.class, n."keyId", n.version, $2, $3 from ${NAMES}
     on conflict do nothing`,
    [all, kind, id],
  );
  return [nulled, destroyed, added].reduce((sum, { rowCount }) => sum + (rowCount ?? 0), 0);
}

/** Whose keys they are, as far as this database knows. */
async function subjectOf(tx: Queryable, subjectHmac: Buffer, names: readonly KeyName[]): Promise<Subject | null> {
  const { rows } = await tx.query(
    `select k.subject_kind as kind, k.subject_id as id from vault.subject_key k join ${NAMES} on ${IS_NAMED}
      where k.subject_kind <> $3
     union
     select r.subject_kind, r.subject_id from vault.erasure_request r where r.subject_hmac = $2
     limit 1`,
    [JSON.stringify(names), subjectHmac, pseudonymous(subjectHmac).kind],
  );
  return (rows[0] as Subject | undefined) ?? null;
}

/** Of a row of `vault.subject_key k`: whether no entry that is done here names it. */
export const NOT_IN_LOG = `
  not exists (select from vault.erasure e
               where e.subject_hmac = r.subject_hmac and k.class || '.' || k.key_id || '.' || k.version = any (e.key_names))`;

/** A request stays while there is a key that the log does not name, because somebody has added it in the meantime: it takes one more entry. */
export async function endRequests(tx: Queryable, { kind, id }: Subject): Promise<void> {
  await tx.query(
    `delete from vault.erasure_request r
      where r.subject_kind = $1 and r.subject_id = $2
        and exists (select from vault.subject_key k
                     where k.class = r.class and k.subject_kind = r.subject_kind and k.subject_id = r.subject_id)
        and not exists (select from vault.subject_key k
                         where k.class = r.class and k.subject_kind = r.subject_kind and k.subject_id = r.subject_id
                           and (k.wrapped is not null or ${NOT_IN_LOG}))`,
    [kind, id],
  );
}

async function advance(tx: Queryable): Promise<void> {
  await tx.query(
    `update vault.erasure_position p
        set through = (select coalesce(max(e.number), p.through)
                         from (select number, row_number() over (order by number) as place
                                 from vault.erasure
                                where number > p.through) e
                        where e.number = p.through + e.place)`,
  );
}

/** A name for a key that is never made: it keeps a person who has none in a class from getting one. */
export function keyThatNeverWas(className: string): KeyName {
  return { class: className, keyId: randomBytes(16).toString('base64url'), version: 1 };
}

function classesOf(names: readonly KeyName[]): string[] {
  return [...new Set(names.map((name) => name.class))].toSorted();
}
