import type { EventPlace } from './associated-data.ts';
import { SealingError } from './errors.ts';
import type { SealingPlan } from './schema/plan.ts';
import { Sealed } from './sealed.ts';
import { ERASED_TEXT, type KeyName, parseSealed } from './sealed-text.ts';
import { openValue, type SubjectKey } from './value.ts';
import { type MarkedValue, replaceMarked } from './walk.ts';

/**
 * The key of that name, that its person was erased, that this reader may not have it, or undefined where no such key exists. What keeps
 * a key from being loaded is thrown while loading, before.
 */
export type OpeningKeys = (name: KeyName) => SubjectKey | 'erased' | 'denied' | undefined;

/**
 * The keys that `openData` will ask for, each once.
 *
 * @throws SealingError `SEALING_MALFORMED`, `SEALING_LIMIT`
 */
export function sealedWith(data: unknown, plan: SealingPlan): KeyName[] {
  const names = new Map<string, KeyName>();
  replaceMarked(plan, data, (marked) => {
    const key = keyOf(marked);
    if (key !== null) names.set(`${key.class} ${key.keyId} ${key.version}`, key);
    return marked.value;
  });
  return [...names.values()];
}

/**
 * Data with the values that this reader may open. A value of a class that it may not open becomes a `Sealed`, one of an erased
 * person what the mark declares as `erasedValue`, else a `Sealed`.
 *
 * @param place the event as its envelope names it, in the version that was written
 * @throws SealingError `SEALING_KEY_UNKNOWN`, `SEALING_TAMPERED`, `SEALING_MALFORMED` (clear text at a marked place too), `SEALING_LIMIT`
 */
export function openData(data: unknown, plan: SealingPlan, keys: OpeningKeys, place: EventPlace): unknown {
  return replaceMarked(plan, data, (marked) => {
    const { mark, pointer } = marked;
    const text = marked.value as string;
    const name = keyOf(marked);
    const key = name === null ? 'erased' : keys(name);
    if (key === undefined) {
      throw new SealingError(
        'SEALING_KEY_UNKNOWN',
        `The value at ${pointer} was sealed with a key that does not exist.`,
        pointer,
      );
    }
    if (key === 'erased')
      return mark.erased === undefined ? new Sealed(text, 'erased') : structuredClone(mark.erased.value);
    if (key === 'denied') return new Sealed(text, 'denied');
    try {
      return openValue(text, key, { ...place, pointer });
    } catch (error) {
      throw error instanceof SealingError ? at(pointer, error) : error;
    }
  });
}

/** Whether `openData` with these keys leaves nothing closed, and puts nothing in place of what was erased. */
export function isOpenedWhole(data: unknown, plan: SealingPlan, keys: OpeningKeys): boolean {
  let whole = true;
  replaceMarked(plan, data, (marked) => {
    const name = keyOf(marked);
    if (name === null || typeof keys(name) !== 'object') whole = false;
    return marked.value;
  });
  return whole;
}

/** Data with the mark of erased persons at all marked places: what can be checked against the wire schema when not all is open. */
export function maskMarked(data: unknown, plan: SealingPlan): unknown {
  return replaceMarked(plan, data, () => ERASED_TEXT);
}

/** Null for the mark of an erased person. */
function keyOf({ value, mark, pointer }: MarkedValue): KeyName | null {
  if (value === ERASED_TEXT) return null;
  const key = typeof value === 'string' ? parse(value, pointer) : null;
  if (key === null)
    throw new SealingError('SEALING_MALFORMED', `The value at ${pointer} is clear and must be sealed.`, pointer);
  if (key.class !== mark.class) {
    throw new SealingError('SEALING_MALFORMED', `The value at ${pointer} is of another class than its place.`, pointer);
  }
  return key;
}

function parse(text: string, pointer: string): KeyName | null {
  try {
    return parseSealed(text)?.key ?? null;
  } catch (error) {
    throw error instanceof SealingError ? at(pointer, error) : error;
  }
}

function at(pointer: string, { code, message }: SealingError): SealingError {
  return new SealingError(code, `At ${pointer}: ${message}`, pointer);
}
