import { type Connections, type Queryable, transaction } from '../../database/index.ts';
import type { KeyName } from '../sealed-text.ts';
import type { Subject } from '../wrapped-key.ts';
import { type ApplyOptions, applyEntry, endRequests, keyThatNeverWas, NOT_IN_LOG } from './apply.ts';
import { appendEntry, type ErasureEntry, type RestrictedKey } from './entries.ts';
import type { ErasureLog } from './log.ts';

export interface FinishOptions extends ApplyOptions {
  readonly pool: ApplyOptions['pool'] & Queryable;
  readonly log: ErasureLog;
}

/** A writer may add a key while its person is erased. More often than this in a row is no accident. */
const MOST_ROUNDS = 5;

/**
 * Does what is due for a person: first the log, then this database. May be interrupted anywhere, and run by several at once: what the log has is
 * applied by whoever comes next, and an entry that says the same again changes nothing.
 */
export async function finishRequests(options: FinishOptions, subject: Subject): Promise<void> {
  for (let round = 1; round <= MOST_ROUNDS; round += 1) {
    const entry = await entryOfRequests(options.pool, subject);
    if (entry === null) return endRequests(options.pool, subject);
    await record(options, entry, subject);
  }
  throw new Error('Keys of a person were added as fast as they were erased.');
}

/** Destroys the keys of a person that no longer have to be kept. */
export async function destroyKept(options: FinishOptions, subject: Subject): Promise<void> {
  const { rows } = await options.pool.query(
    `select class, key_id as "keyId", version, subject_hmac as "subjectHmac"
       from vault.restricted_key
      where subject_kind = $1 and subject_id = $2 and keep_until <= now()
      order by class, key_id, version`,
    [subject.kind, subject.id],
  );
  const [first] = rows;
  if (first === undefined) return;
  const erased: KeyName[] = rows.map(({ class: className, keyId, version }) => ({ class: className, keyId, version }));
  await record(options, { subjectHmac: first.subjectHmac as Buffer, erased, restricted: [] }, subject);
}

async function record(options: FinishOptions, entry: ErasureEntry, subject: Subject): Promise<void> {
  const { rows } = await options.pool.query('select through::float8 as through from vault.erasure_position');
  const number = await appendEntry(options.log, rows[0].through as number, entry);
  await applyEntry(options, { number, ...entry }, subject);
}

/**
 * Takes back the requests of a person that are not due.
 *
 * What is in the log cannot be taken back. So whoever cancels and whoever looks for what is due come one after the other: a request is due for the one, or gone for
 * the other, also where a cancellation began before its time was over and ends after.
 */
export async function cancelRequests(db: Connections, { kind, id }: Subject): Promise<string[]> {
  return inTurn(db, async (tx) => {
    const { rows } = await tx.query(
      `delete from vault.erasure_request
        where subject_kind = $1 and subject_id = $2 and due_at > clock_timestamp()
       returning class`,
      [kind, id],
    );
    return rows.map((row) => row.class as string).toSorted();
  });
}

function inTurn<T>(db: Connections, work: (tx: Queryable) => Promise<T>): Promise<T> {
  return transaction(db, async (tx) => {
    // A statement of its own: the next one then sees what whoever was before has committed.
    await tx.query('select from vault.erasure_position for update');
    return work(tx);
  });
}

/** What the log has yet to say of the requests that are due; null for nothing. */
async function entryOfRequests(db: Connections, { kind, id }: Subject): Promise<ErasureEntry | null> {
  const { rows } = await inTurn(db, (tx) =>
    tx.query(
      `select r.class, r.subject_hmac as "subjectHmac", k.key_id as "keyId", k.version,
              to_char(r.keep_until at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as until,
              coalesce(r.keep_until > now(), false) as "mustBeKept"
         from vault.erasure_request r
         left join vault.subject_key k
           on k.class = r.class and k.subject_kind = r.subject_kind and k.subject_id = r.subject_id
        where r.subject_kind = $1 and r.subject_id = $2 and r.due_at <= now()
          and (k.class is null or k.wrapped is not null or ${NOT_IN_LOG})
        order by r.class, k.version`,
      [kind, id],
    ),
  );
  const [first] = rows;
  if (first === undefined) return null;
  const erased: KeyName[] = [];
  const restricted: RestrictedKey[] = [];
  for (const { class: className, keyId, version, until, mustBeKept } of rows) {
    if (keyId === null) erased.push(keyThatNeverWas(className as string));
    else if (mustBeKept === true) restricted.push({ class: className, keyId, version, until });
    else erased.push({ class: className, keyId, version });
  }
  return { subjectHmac: first.subjectHmac as Buffer, erased, restricted };
}
