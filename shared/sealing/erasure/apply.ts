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
      await endRequests(tx, subject, [...classes, ...classesOf(restricted)]);
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
    await advance(tx);
    return true;
  });
}

/** Takes the bytes away, and adds rows for keys that are not there. @returns how many rows that changed */
async function takeKeys(tx: Queryable, entry: ErasureEntry, subject: Subject | null): Promise<number> {
  const erased = JSON.stringify(entry.erased);
  const restricted = JSON.stringify(entry.restricted);
  const all = JSON.stringify([...entry.erased, ...entry.restricted]);
  await tx.query(
    `select from vault.subject_key k join ${NAMES} on ${IS_NAMED} order by k.class, k.key_id, k.version for update of k`,
    [all],
  );
  await tx.query(
    `insert into vault.restricted_key
            (class, key_id, version, subject_kind, subject_id, subject_hmac, branch_version, wrapped, keep_until)
     select k.class, k.key_id, k.version, k.subject_kind, k.subject_id, $2, k.branch_version, k.wrapped, n.until
       from vault.subject_key k join ${NAMES} on ${IS_NAMED}
      where k.wrapped is not null
     on conflict do nothing`,
    [restricted, entry.subjectHmac],
  );
  const nulled = await tx.query(
    `update vault.subject_key k set wrapped = null from ${NAMES} where ${IS_NAMED} and k.wrapped is not null`,
    [all],
  );
  const destroyed = await tx.query(`delete from vault.restricted_key k using ${NAMES} where ${IS_NAMED}`, [erased]);
  const { kind, id } = subject ?? pseudonymous(entry.subjectHmac);
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

/** A request stays while a key is left that another process has added in the meantime: it takes one more entry. */
async function endRequests(tx: Queryable, { kind, id }: Subject, classes: readonly string[]): Promise<void> {
  await tx.query(
    `delete from vault.erasure_request r
      where r.subject_kind = $1 and r.subject_id = $2 and r.class = any ($3)
        and not exists (select from vault.subject_key k
                         where k.class = r.class and k.subject_kind = r.subject_kind and k.subject_id = r.subject_id
                           and k.wrapped is not null)`,
    [kind, id, classes],
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
