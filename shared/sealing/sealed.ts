import { inspect } from 'node:util';
import { SealedValueUsedError } from './errors.ts';

declare const VALUE: unique symbol;

/** Why the value is closed: this reader may not open its class, or the person was erased. */
export type ClosedBecause = 'denied' | 'erased';

/**
 * A value that this reader cannot read. It can be passed on with `sealedText`, and nothing else: whatever would print,
 * compare or serialise it throws, except a look at it with `util.inspect`, as `console.log` does, which shows a placeholder.
 */
export class Sealed<T = unknown> {
  declare readonly [VALUE]: T;
  readonly #text: string;
  readonly #because: ClosedBecause;

  constructor(text: string, because: ClosedBecause) {
    this.#text = text;
    this.#because = because;
    Object.freeze(this);
  }

  static textOf(sealed: Sealed): string {
    return sealed.#text;
  }

  static becauseOf(sealed: Sealed): ClosedBecause {
    return sealed.#because;
  }

  toString(): never {
    throw new SealedValueUsedError();
  }

  toJSON(): never {
    throw new SealedValueUsedError();
  }

  valueOf(): never {
    throw new SealedValueUsedError();
  }

  [Symbol.toPrimitive](): never {
    throw new SealedValueUsedError();
  }

  [inspect.custom](): string {
    return `[Sealed: ${this.#because}]`;
  }
}

export function isSealed(value: unknown): value is Sealed {
  return value instanceof Sealed;
}

/** Whether a value is closed because its person was erased. */
export function isErased(value: unknown): value is Sealed {
  return value instanceof Sealed && Sealed.becauseOf(value) === 'erased';
}

/** The text as it was written, to pass it on. It opens only at the place that it was sealed for. */
export function sealedText(sealed: Sealed): string {
  return Sealed.textOf(sealed);
}
