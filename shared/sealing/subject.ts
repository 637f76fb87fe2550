import { SealingRefusedError } from './errors.ts';
import type { MarkedValue } from './walk.ts';
import type { Subject } from './wrapped-key.ts';

const MAX_CHARACTERS = 200;

/** Whose value it is, read from the data beside it. @throws SealingRefusedError where no sound id stands there. */
export function subjectOf({ mark, pointer, ancestors }: MarkedValue): Subject {
  const { up, kind, steps } = mark.subject;
  let found: unknown = up === null ? ancestors[0] : ancestors[ancestors.length - up];
  for (const step of steps) found = fieldOf(found, step);
  const subject = kind === null ? { kind: fieldOf(found, 'kind'), id: fieldOf(found, 'id') } : { kind, id: found };
  if (!isSubject(subject)) {
    throw new SealingRefusedError(
      `belongs to nobody: its subject is not a text of 1-${MAX_CHARACTERS} characters`,
      pointer,
    );
  }
  return { kind: subject.kind, id: subject.id };
}

export function isSubject(subject: unknown): subject is Subject {
  return isName(fieldOf(subject, 'kind')) && isName(fieldOf(subject, 'id'));
}

function fieldOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return (value as Record<string, unknown>)[name];
}

/** A vault keeps it in PostgreSQL, whose texts hold no U+0000. */
function isName(text: unknown): text is string {
  return (
    typeof text === 'string' &&
    text !== '' &&
    text.length <= MAX_CHARACTERS &&
    text.isWellFormed() &&
    !text.includes('\u0000')
  );
}
