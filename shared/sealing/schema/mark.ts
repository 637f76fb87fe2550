import { isClassName } from '../sealed-text.ts';
import { inexactness } from '../exact-json.ts';
import { isSchemaObject } from './document.ts';
import { SealingSchemaError } from './schema-error.ts';

/**
 * Where the person stands in the data: a JSON Pointer to an object with `kind` and `id`, or a fixed kind and a pointer to the id.
 * Absolute (`/customerId`), or relative to the marked value: `1/customerId` is its sibling.
 */
export type SubjectPlace = string | { readonly kind: string; readonly id: string };

/** The value of the keyword `x-gdpr-sensitive`. `true`, and what is left out, is what the event type declares. */
export type SensitiveMark =
  | boolean
  | {
      readonly class?: string;
      readonly subject?: SubjectPlace;
      /** What readers get in place of an erased value. Without it they get a closed `Sealed`. */
      readonly erasedValue?: unknown;
    };

/** What an event type declares for its marks. */
export interface Sensitive {
  readonly class: string;
  readonly subject: SubjectPlace;
}

/** How to come from a marked value to its person: levels up (null: from the top), then down by names. */
export interface SubjectPath {
  readonly up: number | null;
  /** A fixed kind; null where the steps lead to an object with `kind` and `id`. */
  readonly kind: string | null;
  readonly steps: readonly string[];
}

export interface PlannedMark {
  readonly class: string;
  readonly subject: SubjectPath;
  /** `{ value }` where one is declared. */
  readonly erased?: { readonly value: unknown };
}

export const KEYWORD = 'x-gdpr-sensitive';
const KEYS = new Set(['class', 'subject', 'erasedValue']);
const POINTER = /^(?:0|[1-9][0-9]{0,2})?(?:\/(?:[^~/]|~[01])*)*$/;

/** @throws SealingSchemaError (`SEALING_MARK_INVALID`). Null where there is no mark. */
export function readMark(place: string, value: unknown, declared: Sensitive | undefined): PlannedMark | null {
  if (value === undefined || value === false) return null;
  const invalid = (reason: string): SealingSchemaError =>
    new SealingSchemaError('SEALING_MARK_INVALID', place, `${KEYWORD} ${reason}.`);
  if (value !== true && !isSchemaObject(value)) throw invalid('must be true, false or { class, subject, erasedValue }');
  const mark: Readonly<Record<string, unknown>> = value === true ? {} : value;
  if (Object.keys(mark).some((key) => !KEYS.has(key))) throw invalid('knows only class, subject and erasedValue');
  const className = mark['class'] ?? declared?.class;
  if (className === undefined) throw invalid('names no class, and the event type declares none');
  if (typeof className !== 'string' || !isClassName(className))
    throw invalid('has a class other than [a-z][a-z0-9-]{0,15}');
  const subject = mark['subject'] ?? declared?.subject;
  if (subject === undefined) throw invalid('names no subject, and the event type declares none');
  const path = readSubject(subject);
  if (path === null) throw invalid('has a subject that is no JSON Pointer, nor { kind, id } with one');
  if (!Object.hasOwn(mark, 'erasedValue')) return { class: className, subject: path };
  const fault = inexactness(mark['erasedValue']);
  if (fault !== null) throw invalid(`has an erasedValue that ${fault}`);
  return { class: className, subject: path, erased: { value: mark['erasedValue'] } };
}

function readSubject(subject: unknown): SubjectPath | null {
  if (typeof subject === 'string') return readPointer(subject, null);
  if (!isSchemaObject(subject) || Object.keys(subject).length !== 2) return null;
  const { kind, id } = subject;
  return typeof kind === 'string' && kind !== '' && typeof id === 'string' ? readPointer(id, kind) : null;
}

function readPointer(pointer: string, kind: string | null): SubjectPath | null {
  if (pointer === '' || !POINTER.test(pointer)) return null;
  const [first = '', ...steps] = pointer.split('/');
  return {
    up: first === '' ? null : Number(first),
    kind,
    steps: steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~')),
  };
}
