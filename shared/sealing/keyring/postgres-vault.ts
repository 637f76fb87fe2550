import { lowerCaseUuid } from '../associated-data.ts';
import { SealingError } from '../errors.ts';
import type { BranchRow, SubjectRow, Vault } from './vault.ts';

/** A `pg.Pool`, and no client: keys are committed at once, whatever becomes of the transaction that a client may be in. */
export interface VaultPool {
  readonly totalCount: number;
  query(statement: string | NamedStatement, values?: unknown[]): Promise<{ readonly rows: unknown[] }>;
}

/** As `pg` takes one: the server plans it once for each connection. */
export interface NamedStatement {
  readonly name: string;
  readonly text: string;
  readonly values: unknown[];
}

/** Without a flush to disk a crash could take a key back with which something has been sealed. */
export const DURABLE = `
  select set_config('synchronous_commit', case setting when 'off' then 'on' else setting end, true)
    from current_setting('synchronous_commit') as setting`;

/**
 * The limits make it one look into an index for each person and name. Without them the planner takes every list for one of a hundred, and would rather
 * read the whole table while it holds some ten thousand keys.
 *
 * @param wrapped what stands for the bytes of a key that is asked for by its name
 */
const readStatement = (wrapped: string, join = ''): string => `
  select coalesce((select json_agg(a.class) from vault.class_access a where a.login = current_user), '[]') as classes,
         coalesce((select json_agg(json_build_object('class', b.class, 'version', b.version, 'active', b.state = 'active',
                                                     'kmsKey', b.kms_key, 'wrapped', encode(b.wrapped, 'base64')))
                     from vault.branch_key b
                    where b.class = any ($3) and b.wrapped is not null), '[]') as branches,
         coalesce((select json_agg(json_build_object('class', k.class, 'keyId', k.key_id, 'version', k.version,
                                                     'kind', k.subject_kind, 'id', k.subject_id,
                                                     'branchVersion', coalesce(k.branch_version, 0), 'wrapped', encode(k.wrapped, 'base64')))
                     from (select newest.class, newest.key_id, newest.version, newest.subject_kind, newest.subject_id,
                                  newest.branch_version, newest.wrapped
                             from jsonb_to_recordset($1::jsonb) as w (class text, kind text, id text)
                            cross join lateral (select k.*
                                                  from vault.subject_key k
                                                 where k.class = w.class and k.subject_kind = w.kind and k.subject_id = w.id
                                                 order by k.version desc
                                                 limit 1) newest
                           union all
                           select named.*
                             from jsonb_to_recordset($2::jsonb) as w (class text, "keyId" text, version integer)
                            cross join lateral (select k.class, k.key_id, k.version, k.subject_kind, k.subject_id, ${wrapped}
                                                  from vault.subject_key k${join}
                                                 where k.class = w.class and k.key_id = w."keyId" and k.version = w.version
                                                 limit 1) named) k),
                  '[]') as subjects,
         (select p.through::float8 from vault.erasure_position p) as "erasedThrough"`;

const READ = { name: 'sealed-outbox-vault-read', text: readStatement('k.branch_version, k.wrapped') };
const READ_RESTRICTED = {
  name: 'sealed-outbox-vault-read-restricted',
  text: readStatement(
    'coalesce(r.branch_version, k.branch_version), coalesce(r.wrapped, k.wrapped)',
    `
                                                  left join vault.restricted_key r
                                                    on r.class = k.class and r.key_id = k.key_id and r.version = k.version`,
  ),
};

export interface PostgresVaultOptions {
  /**
   * Whether keys are read that are kept from other readers because their persons were erased and their data must be kept. The login needs
   * `vault_restricted_reader` besides. Only for what must look into such data, such as a tax audit: it opens, and seals nothing about these persons.
   */
  readonly restricted?: boolean;
  /**
   * Whether each connection keeps the plan of the statement that reads keys, under a name: planning it takes three times as long as running it. Default: true.
   * Behind a pooler that does not know of named statements, such as PgBouncer before 1.21 or with `max_prepared_statements = 0`, it must be false; RDS Proxy shares its connections only then.
   */
  readonly named?: boolean;
}

/**
 * The vault in the tables of migrations/vault. The login needs `vault_reader` or `vault_writer`, and its classes in `vault.class_access`.
 *
 * A pool of one connection will do, also when it is the one of the caller's transactions: prepare before you begin.
 */
export function postgresVault(pool: VaultPool, { restricted = false, named = true }: PostgresVaultOptions = {}): Vault {
  const { name, text } = restricted ? READ_RESTRICTED : READ;
  return {
    async read(persons, names) {
      const classes = new Set([...persons, ...names].map((wanted) => wanted.class));
      const wanted = persons.map(({ class: className, subject }) => ({
        class: className,
        kind: subject.kind,
        id: lowerCaseUuid(subject.id),
      }));
      const byName = names.map(({ class: className, keyId, version }) => ({ class: className, keyId, version }));
      const values = [JSON.stringify(wanted), JSON.stringify(byName), [...classes]];
      const { rows } = await inVault(named ? pool.query({ name, text, values }) : pool.query(text, values));
      const { classes: own, branches, subjects, erasedThrough } = rows[0] as ReadRow;
      return { classes: own, branches: branches.map(branchRow), subjects: subjects.map(subjectRow), erasedThrough };
    },

    async createSubjects(created) {
      const inserted = created
        .map(({ class: className, keyId, version, subject, branchVersion, wrapped }) => ({
          class: className,
          keyId,
          version,
          kind: subject.kind,
          id: lowerCaseUuid(subject.id),
          branchVersion,
          wrapped: wrapped === null ? null : Buffer.from(wrapped).toString('base64'),
        }))
        // In one order for all: or two that create the same keys could wait for each other.
        .toSorted((a, b) => compare(a.class, b.class) || compare(a.kind, b.kind) || compare(a.id, b.id));
      const { rows } = await inVault(
        pool.query(
          `with durable as (${DURABLE})
           insert into vault.subject_key (class, key_id, version, subject_kind, subject_id, branch_version, wrapped)
           select k.class, k."keyId", k.version, k.kind, k.id, k."branchVersion", decode(k.wrapped, 'base64')
             from durable,
                  rows from (jsonb_to_recordset($1::jsonb)
                             as (class text, "keyId" text, version integer, kind text, id text, "branchVersion" integer, wrapped text))
                  with ordinality as k (class, "keyId", version, kind, id, "branchVersion", wrapped, place)
            order by k.place
           on conflict (class, subject_kind, subject_id, version) do nothing
           returning key_id`,
          [JSON.stringify(inserted)],
        ),
      );
      return rows.map((row) => (row as { readonly key_id: string }).key_id);
    },

    async createBranch({ class: className, version, kmsKey, wrapped }) {
      await inVault(
        pool.query(
          `with durable as (${DURABLE})
           insert into vault.branch_key (class, version, kms_key, wrapped)
           select $1, $2, $3, decode($4, 'base64') from durable
           on conflict do nothing`,
          [className, version, kmsKey, Buffer.from(wrapped).toString('base64')],
        ),
      );
      const { rows } = await inVault(
        pool.query(
          `select class, version, true as active, kms_key as "kmsKey", encode(wrapped, 'base64') as wrapped
             from vault.branch_key
            where class = $1 and state = 'active'`,
          [className],
        ),
      );
      const [standing] = rows as BranchText[];
      if (standing === undefined) {
        throw new SealingError('SEALING_KEY_UNKNOWN', `Class '${className}' has no branch key that is active.`);
      }
      return branchRow(standing);
    },
  };
}

/** Rows as JSON holds them: bytes in base64. */
interface BranchText extends Omit<BranchRow, 'wrapped'> {
  readonly wrapped: string;
}

interface SubjectText extends Omit<SubjectRow, 'subject' | 'wrapped'> {
  readonly kind: string;
  readonly id: string;
  readonly wrapped: string | null;
}

interface ReadRow {
  readonly classes: readonly string[];
  readonly branches: readonly BranchText[];
  readonly subjects: readonly SubjectText[];
  readonly erasedThrough: number;
}

function branchRow(row: BranchText): BranchRow {
  return { ...row, wrapped: Buffer.from(row.wrapped, 'base64') };
}

function subjectRow({ kind, id, wrapped, ...row }: SubjectText): SubjectRow {
  return { ...row, subject: { kind, id }, wrapped: wrapped === null ? null : Buffer.from(wrapped, 'base64') };
}

/** By code units: any order will do, as long as it is the same everywhere. */
function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** A statement of the vault's, with its failures called by the keyring's names. */
export async function inVault<T>(statement: Promise<T>): Promise<T> {
  try {
    return await statement;
  } catch (cause) {
    const { code } = cause as { readonly code?: unknown };
    const called = typeof code === 'string' && /^[0-9A-Z_]{2,40}$/.test(code) ? code : 'no answer';
    // What PostgreSQL says may quote what it was given.
    throw called === '42501'
      ? new SealingError('SEALING_DENIED', 'This login may not do that in the vault (42501).')
      : new SealingError('SEALING_UNAVAILABLE', `The vault could not be read or written (${called}).`);
  }
}
