import { lowerCaseUuid } from '../associated-data.ts';
import { DURABLE, inVault } from '../keyring/postgres-vault.ts';
import type { SubjectRow } from '../keyring/vault.ts';
import type { BranchState, CanaryRow, RotationVault, WrappedSubject } from './rotation-vault.ts';

/** A pool, or a client that is in no transaction: every call is one of its own. */
export interface RotationConnection {
  query(text: string, values: unknown[]): Promise<{ readonly rows: unknown[]; readonly rowCount: number | null }>;
}

/** Of a row of `vault.subject_key k`, as JSON. */
const SUBJECT = `json_build_object('class', k.class, 'keyId', k.key_id, 'version', k.version, 'kind', k.subject_kind, 'id', k.subject_id,
                                   'branchVersion', k.branch_version, 'wrapped', encode(k.wrapped, 'base64'))`;

/** A branch key cannot be destroyed yet: somebody has wrapped with it since it was looked at, or something else must be kept that it wraps. */
const NOT_YET: ReadonlySet<unknown> = new Set(['VA002', '55006']);

/** The vault in the tables of migrations/vault. The login needs `vault_rotator`, and its classes as those in which it may create. */
export function postgresRotation(db: RotationConnection): RotationVault {
  const changed = async (text: string, values: unknown[]): Promise<number> =>
    (await inVault(db.query(text, values))).rowCount ?? 0;
  return {
    async branches() {
      const { rows } = await inVault(
        db.query(
          `select class, version, state = 'active' as active, kms_key as "kmsKey", wrapped,
                  extract(epoch from clock_timestamp() - created_at)::float8 as age,
                  extract(epoch from clock_timestamp() - retired_at)::float8 as "retiredFor"
             from vault.branch_key
            where wrapped is not null
            order by class, version`,
          [],
        ),
      );
      return rows as BranchState[];
    },

    async succeedBranch({ class: className, version }, { kmsKey, wrapped }) {
      const added = await changed(
        `with durable as (${DURABLE}),
              retired as (update vault.branch_key set state = 'retired'
                           where class = $1 and version = $2 and state = 'active'
                          returning class, version)
         insert into vault.branch_key (class, version, kms_key, wrapped)
         select r.class, r.version + 1, $3, $4 from retired r, durable`,
        [className, version, kmsKey, wrapped],
      );
      return added === 1;
    },

    async rewrapBranch(old, { kmsKey, wrapped }) {
      const replaced = await changed(
        `with durable as (${DURABLE})
         update vault.branch_key set kms_key = $4, wrapped = $5
           from durable
          where class = $1 and version = $2 and wrapped = $3`,
        [old.class, old.version, old.wrapped, kmsKey, wrapped],
      );
      return replaced === 1;
    },

    async destroyBranch({ class: className, version }) {
      const destroying = db.query(
        `update vault.branch_key b set state = 'destroyed', wrapped = null
          where b.class = $1 and b.version = $2 and b.state = 'retired'
            and b.retired_at <= clock_timestamp() - interval '1 hour'
            and not exists (select from vault.subject_key k
                             where k.class = b.class and k.branch_version = b.version and k.wrapped is not null)`,
        [className, version],
      );
      const notYet = destroying.catch((error: unknown) => {
        if (NOT_YET.has((error as { readonly code?: unknown }).code)) return { rows: [], rowCount: 0 };
        throw error;
      });
      return (await inVault(notYet)).rowCount === 1;
    },

    async page(table, { class: className, version }, after, size) {
      const { rows } = await inVault(
        db.query(
          `with page as materialized (
             select k.class, k.key_id, k.version, k.subject_kind, k.subject_id, k.branch_version, k.wrapped
               from vault.${table} k
              where k.class = $1 and (k.key_id, k.version) > ($2, $3)
              order by k.key_id, k.version
              limit $4)
           select (select json_build_object('keyId', k.key_id, 'version', k.version)
                     from (select k.key_id, k.version from page k order by k.key_id, k.version offset $4 - 1) k) as last,
                  coalesce((select json_agg(${SUBJECT}) from page k where k.branch_version = $5 and k.wrapped is not null), '[]') as rows`,
          [className, after?.keyId ?? '', after?.version ?? 0, size, version],
        ),
      );
      const [{ last, rows: found }] = rows as [{ last: typeof after; rows: SubjectText[] }];
      return { last, rows: found.map((row) => subjectRow(row) as WrappedSubject) };
    },

    async rewrapSubjects(table, rows, to) {
      const [first] = rows;
      if (first === undefined) return 0;
      const given = rows.map(([old, wrapped]) => ({
        keyId: old.keyId,
        version: old.version,
        old: Buffer.from(old.wrapped).toString('base64'),
        wrapped: Buffer.from(wrapped).toString('base64'),
      }));
      // Rows that another transaction holds are passed over: so this waits for nobody, and nobody can wait for it in a circle. What a
      // crash takes back is wrapped again. The part with the lock and the array make it a look into the index for each key: the planner takes every list for
      // one of a hundred, and would rather read the whole table while it holds some ten thousand (145 µs a key of 20,000, instead of 55). The new wrappings are
      // looked up by name: joined, each key was compared with each where statistics were of before the last rotation, or of many classes (95 µs, instead of 40).
      return changed(
        `with lazy as (select set_config('synchronous_commit', 'off', true)),
              free as materialized (
                select k.key_id, k.key_id || '.' || k.version as name, g.wrapped
                  from lazy, jsonb_to_recordset($4::jsonb) as g ("keyId" text, version integer, old text, wrapped text)
                 cross join lateral (select k.key_id, k.version
                                       from vault.${table} k
                                      where k.class = $1 and k.key_id = g."keyId" and k.version = g.version
                                        and k.branch_version = $2 and k.wrapped = decode(g.old, 'base64')
                                        for no key update skip locked) k),
              anew as materialized (select jsonb_object_agg(name, wrapped) as by_name from free)
         update vault.${table} k
            set branch_version = $3, wrapped = decode((select by_name from anew) ->> (k.key_id || '.' || k.version), 'base64')
          where k.class = $1 and k.key_id = any (array(select key_id from free))
            and (select by_name from anew) ? (k.key_id || '.' || k.version)`,
        [first[0].class, first[0].branchVersion, to, JSON.stringify(given)],
      );
    },

    async newestSubject(className, subject) {
      const { rows } = await inVault(
        db.query(
          `select ${SUBJECT} as row
             from vault.subject_key k
            where k.class = $1 and k.subject_kind = $2 and k.subject_id = $3
            order by k.version desc
            limit 1`,
          [className, subject.kind, lowerCaseUuid(subject.id)],
        ),
      );
      const [found] = rows as { readonly row: SubjectText }[];
      return found === undefined ? null : subjectRow(found.row);
    },

    async succeedSubject(row) {
      // The lock lets whoever erases the person wait; the new version is erased with the others then (migrations/vault/0002_rotation.sql).
      const added = await changed(
        `with durable as (${DURABLE}),
              newest as materialized (
                select k.class, k.key_id, k.version, k.subject_kind, k.subject_id
                  from vault.subject_key k
                 where k.class = $1 and k.key_id = $2 and k.version = $3 - 1 and k.wrapped is not null
                   for no key update)
         insert into vault.subject_key (class, key_id, version, subject_kind, subject_id, branch_version, wrapped)
         select n.class, n.key_id, n.version + 1, n.subject_kind, n.subject_id, $4, $5 from newest n, durable
         on conflict do nothing`,
        [row.class, row.keyId, row.version, row.branchVersion, row.wrapped],
      );
      return added === 1;
    },

    async canaries() {
      const { rows } = await inVault(
        db.query(
          `select a.class, c.value, c.opened_at is not null as opened,
                  extract(epoch from clock_timestamp() - coalesce(c.opened_at, c.made_at))::float8 as age
             from vault.class_access a
             left join vault.canary c on c.class = a.class
            where a.login = current_user and a.may_create
            order by a.class`,
          [],
        ),
      );
      return rows as CanaryRow[];
    },

    async addCanary(className, value) {
      await changed('insert into vault.canary (class, value) values ($1, $2) on conflict do nothing', [
        className,
        value,
      ]);
    },

    async canaryOpened(className) {
      await changed('update vault.canary set opened_at = clock_timestamp() where class = $1', [className]);
    },
  };
}

interface SubjectText extends Omit<SubjectRow, 'subject' | 'wrapped'> {
  readonly kind: string;
  readonly id: string;
  readonly wrapped: string | null;
}

function subjectRow({ kind, id, wrapped, ...row }: SubjectText): SubjectRow {
  return { ...row, subject: { kind, id }, wrapped: wrapped === null ? null : Buffer.from(wrapped, 'base64') };
}
