import { SealedOutboxError } from '../../errors/index.ts';
import type { Metrics } from '../../telemetry/index.ts';
import { noMetrics } from '../../telemetry/index.ts';
import { lowerCaseUuid } from '../associated-data.ts';
import type { Kms } from '../keyring/kms.ts';
import { isSubject } from '../subject.ts';
import type { Subject } from '../wrapped-key.ts';
import { type Classes, defineClasses } from './classes.ts';
import { defineErasable } from './columns.ts';
import { ErasureError } from './errors.ts';
import { cancelRequests, finishRequests, type FinishOptions } from './finish.ts';
import { logUnreadable } from './log.ts';
import { createPseudonyms } from './pseudonyms.ts';

/**
 * - `open`: nothing was asked for; the person may have no key in it;
 * - `waiting`: asked for, and can be cancelled until `until`;
 * - `restricted`: closed to all readers but those with the role `vault_restricted_reader`, destroyed at `until`;
 * - `erased`: no key is left.
 */
export type ClassState = 'open' | 'waiting' | 'restricted' | 'erased';

export interface ErasureAnswer {
  /**
   * `unknown`: the vault has no key of this person, so there is nothing to erase. `waiting`: nothing was destroyed yet. `done`: every class is as `classes`
   * says. `open`: answered by `status` alone, when nobody has asked.
   */
  readonly outcome: 'unknown' | 'open' | 'waiting' | 'done';
  /** What becomes of each class of data, and when. */
  readonly classes: readonly {
    readonly class: string;
    readonly state: ClassState;
    readonly until: Date | null;
    /** Of a class that waits: from `until` on it is restricted, and destroyed then. */
    readonly keptUntil: Date | null;
  }[];
}

export interface EraseRequest {
  readonly subject: Subject;
  /** From when a class's `after` counts, such as the end of the year of the last invoice. Default: now. */
  readonly since?: Readonly<Record<string, Date>>;
}

export interface ErasureOptions extends FinishOptions {
  /** Name of the vault, as the keyring has it. */
  readonly name: string;
  /** Its role needs `kms:GenerateDataKey` and `kms:Decrypt` for the class `erasure`, and for no class of data. */
  readonly kms: Kms;
  readonly classes: Classes;
  /** Seconds between a request and what it does, in which it can be cancelled. Default: 0. */
  readonly delaySeconds?: number;
  readonly metrics?: Metrics;
}

export interface Erasure {
  /**
   * Erases a person, or, with a delay, asks for it. Repeat it as often as you like: what was asked for or done stays as it is, and what was
   * interrupted goes on.
   *
   * Metric: `ErasuresRequested` (Count), persons for whom something was asked that was not before. Alarm on its rate.
   *
   * @throws ErasureError `ERASURE_DECLARATION`, `ERASURE_CLASS_UNDECLARED`; `ERASURE_NOT_FINISHED`: recorded, and finished by the janitor; SealingError,
   * such as `SEALING_UNAVAILABLE` while the log cannot be read by a process that has not read it before: the request was not recorded.
   */
  erase(request: EraseRequest): Promise<ErasureAnswer>;
  /** Takes back what waits. What is erased or restricted stays so. @returns classes whose request was taken back */
  cancel(subject: Subject): Promise<readonly string[]>;
  status(subject: Subject): Promise<ErasureAnswer>;
}

/**
 * Erasing persons (docs/erasure.md).
 *
 * ```ts
 * const erasure = createErasure({ name: 'invoices', pool, kms, log, classes, erasable, announce });
 * const { classes } = await erasure.erase({ subject: { kind: 'customer', id } });
 * ```
 */
export function createErasure(options: ErasureOptions): Erasure {
  const { name, pool, kms, log, metrics = noMetrics, delaySeconds = 0 } = options;
  const classes = defineClasses(options.classes);
  defineErasable(options.erasable);
  if (!Number.isFinite(delaySeconds) || delaySeconds < 0) throw refused('The delay must be seconds, 0 or more.');
  const pseudonyms = createPseudonyms(name, log, kms);

  const status = async ({ kind, id }: Subject): Promise<ErasureAnswer> => {
    const { rows } = await pool.query(STATUS, [kind, id, Object.keys(classes)]);
    const undeclared = rows.find((row) => row.class !== null && !Object.hasOwn(classes, row.class as string));
    if (undeclared !== undefined) {
      throw new ErasureError(
        'ERASURE_CLASS_UNDECLARED',
        `The vault has keys of this person in class '${undeclared.class}', which is not declared. Nothing was erased: add it to defineClasses().`,
      );
    }
    if (rows.every((row) => row.known === false)) return { outcome: 'unknown', classes: [] };
    const told = rows.map(
      ({ class: className, live, dueAt, keepUntil, keptUntil }): ErasureAnswer['classes'][number] => {
        const at = { class: className as string, keptUntil: null };
        if (dueAt !== null) return { ...at, state: 'waiting', until: dueAt, keptUntil: keepUntil };
        if (live === true) return { ...at, state: 'open', until: null };
        return keptUntil === null
          ? { ...at, state: 'erased', until: null }
          : { ...at, state: 'restricted', until: keptUntil };
      },
    );
    return { outcome: outcomeOf(told.map(({ state }) => state)), classes: told };
  };

  /** @returns whether something was asked for that was not before */
  const ask = async (subject: Subject, since: EraseRequest['since'] = {}): Promise<boolean> => {
    const subjectHmac = await pseudonyms.of(subject).catch((error: unknown) => {
      throw error instanceof SealedOutboxError ? error : logUnreadable(error);
    });
    const asked = Object.entries(classes).map(([className, { erase }]) => ({
      class: className,
      days: erase === 'onRequest' ? null : erase.after,
      since: since[className]?.toISOString() ?? null,
    }));
    const { rowCount } = await pool.query(ASK, [
      subject.kind,
      subject.id,
      JSON.stringify(asked),
      subjectHmac,
      delaySeconds,
    ]);
    return rowCount !== 0;
  };

  return {
    async erase({ subject: given, since }) {
      const subject = soundSubject(given);
      for (const [className, date] of Object.entries(since ?? {})) {
        if (!Object.hasOwn(classes, className)) throw refused(`Class '${className}' of since is not declared.`);
        if (Number.isNaN(date.getTime())) throw refused(`The date of class '${className}' in since is none.`);
      }
      const before = await status(subject);
      if (before.outcome === 'unknown') return before;
      if (before.classes.some(({ state }) => state === 'open') && (await ask(subject, since))) {
        metrics.add('ErasuresRequested', 'Count', 1);
      }
      try {
        await finishRequests(options, subject);
      } catch (cause) {
        throw new ErasureError(
          'ERASURE_NOT_FINISHED',
          'The erasure was asked for and is recorded, and not yet done: the janitor goes on with it. To go on at once, ask again.',
          { cause },
        );
      }
      return status(subject);
    },

    cancel: async (given) => cancelRequests(pool, soundSubject(given)),

    status: async (given) => status(soundSubject(given)),
  };
}

/** One row for each class that is declared or that the person has keys of. */
const STATUS = `
  select c.class, k.rows > 0 as known, coalesce(k.live, true) as live, r.due_at as "dueAt", r.keep_until as "keepUntil",
         (select max(x.keep_until) from vault.restricted_key x
           where x.class = c.class and x.subject_kind = $1 and x.subject_id = $2) as "keptUntil"
    from (select unnest($3::text[]) as class
           union
          select class from vault.subject_key where subject_kind = $1 and subject_id = $2) c
   cross join lateral (select count(*) as rows, bool_or(s.wrapped is not null) as live
                         from vault.subject_key s
                        where s.class = c.class and s.subject_kind = $1 and s.subject_id = $2) k
    left join vault.erasure_request r on r.class = c.class and r.subject_kind = $1 and r.subject_id = $2
   order by c.class`;

/** Of a class in which the person has no key yet, so that none is made; not of one that is closed already. */
const ASK = `
  insert into vault.erasure_request (subject_kind, subject_id, class, subject_hmac, due_at, keep_until)
  select $1, $2, a.class, $4, now() + $5 * interval '1 second',
         case when a.days is not null
              then greatest(coalesce(a.since, now()) + a.days * interval '1 day', now() + $5 * interval '1 second') end
    from jsonb_to_recordset($3::jsonb) as a (class text, days integer, since timestamptz)
    left join lateral (select bool_or(k.wrapped is not null) as live
                         from vault.subject_key k
                        where k.class = a.class and k.subject_kind = $1 and k.subject_id = $2) k on true
   where coalesce(k.live, true)
  on conflict do nothing`;

function outcomeOf(states: readonly ClassState[]): ErasureAnswer['outcome'] {
  if (states.includes('waiting')) return 'waiting';
  return states.includes('open') ? 'open' : 'done';
}

function soundSubject(subject: Subject): Subject {
  if (!isSubject(subject)) throw refused('A person has a kind and an id, texts of 1-200 characters.');
  return { kind: subject.kind, id: lowerCaseUuid(subject.id) };
}

function refused(message: string): ErasureError {
  return new ErasureError('ERASURE_DECLARATION', `${message} Nothing was erased.`);
}
