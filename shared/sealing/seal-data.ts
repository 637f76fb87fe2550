import { type EventPlace, lowerCaseUuid } from './associated-data.ts';
import { type Random, saltsForNow } from './cipher.ts';
import { KeysNotPreparedError, SealingRefusedError } from './errors.ts';
import type { SealingPlan } from './schema/plan.ts';
import { ERASED_TEXT } from './sealed-text.ts';
import { isSubject, subjectOf } from './subject.ts';
import { sealValue, type SubjectKey } from './value.ts';
import { replaceMarked } from './walk.ts';
import type { Subject } from './wrapped-key.ts';

/** The newest key of a person and class, that the person was erased, or undefined where it was not prepared. */
export type SealingKeys = (className: string, subject: Subject) => SubjectKey | 'erased' | undefined;

/** A key that sealing will ask for. */
export interface NeededKey {
  readonly class: string;
  readonly subject: Subject;
}

/** One text for each person and class, however the person's id is written. */
export function personKey({ class: className, subject }: NeededKey): string {
  return JSON.stringify([className, subject.kind, lowerCaseUuid(subject.id)]);
}

/**
 * The keys that data of these plans can need about these persons: each person in every class that is marked for its kind.
 *
 * @throws SealingRefusedError (`SEALING_REFUSED`) for a person without a sound kind and id.
 */
export function possibleKeys(plans: readonly SealingPlan[], subjects: readonly Subject[]): NeededKey[] {
  const marks = plans.flatMap((plan) => plan.nodes.flatMap(({ mark }) => (mark === null ? [] : [mark])));
  return subjects.flatMap((subject, index) => {
    if (!isSubject(subject)) {
      throw new SealingRefusedError('is nobody: kind and id must be texts of 1-200 characters', `subjects[${index}]`);
    }
    const ofItsKind = marks.filter(({ subject: { kind } }) => kind === null || kind === subject.kind);
    const classes = new Set(ofItsKind.map((mark) => mark.class));
    return [...classes].map((className) => ({ class: className, subject: { kind: subject.kind, id: subject.id } }));
  });
}

/**
 * The keys that `sealData` will need for this data, each once.
 *
 * @throws SealingRefusedError (`SEALING_REFUSED`) where the data does not say whose a value is.
 */
export function neededKeys(data: unknown, plan: SealingPlan): NeededKey[] {
  const needed = new Map<string, NeededKey>();
  replaceMarked(plan, data, (marked) => {
    const subject = subjectOf(marked);
    const key = { class: marked.mark.class, subject };
    needed.set(personKey(key), key);
    return marked.value;
  });
  return [...needed.values()];
}

/**
 * Data as it is stored and sent: sealed at every marked place. Valid data of the type's schema becomes valid data of its wire
 * schema. Pure arithmetic.
 *
 * @throws KeysNotPreparedError `KEYS_NOT_PREPARED`; SealingRefusedError `SEALING_REFUSED`: a value that is sealed already or that JSON
 * would change, or one that belongs to nobody.
 */
export function sealData(
  data: unknown,
  plan: SealingPlan,
  keys: SealingKeys,
  place: EventPlace,
  random: Random = saltsForNow(),
): unknown {
  return replaceMarked(plan, data, (marked) => {
    const { value, mark, pointer } = marked;
    const key = keys(mark.class, subjectOf(marked));
    if (key === undefined) {
      throw new KeysNotPreparedError(
        `The key of class '${mark.class}' for the person of ${pointer} was not prepared, or over five minutes ago. Name that person in prepare(). Nothing was sealed.`,
      );
    }
    if (key === 'erased') return ERASED_TEXT;
    try {
      return sealValue(value, key, { ...place, pointer }, random);
    } catch (error) {
      throw error instanceof SealingRefusedError ? error.at(pointer) : error;
    }
  });
}
