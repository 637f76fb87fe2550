import { SealingError } from '../errors.ts';

/**
 * Where the log of erasures is kept: outside the database, so that a restored backup does not take it back. Nothing in it is ever changed or
 * deleted. Names are paths with `/`.
 */
export interface ErasureLog {
  /** Writes a new file, unless there is one of that name. Resolves when it is there for good. @returns whether it was written */
  create(name: string, content: Uint8Array): Promise<boolean>;
  /** Names that begin with `prefix` and come after `after`, ascending. What was created before is among them. */
  list(prefix: string, after: string): AsyncIterable<string>;
  read(name: string): Promise<Uint8Array>;
}

/** What a log, or what it is kept in, fails with, in the words of the keyring: it passes. */
export function logUnreadable(error: unknown): SealingError {
  const { name, code } = error as { readonly name?: unknown; readonly code?: unknown };
  const isName = (it: unknown): it is string => typeof it === 'string' && /^[A-Za-z][A-Za-z0-9_.]{1,60}$/.test(it);
  const called = [code, name].find(isName) ?? 'no answer';
  return new SealingError(
    'SEALING_UNAVAILABLE',
    `The log of erasures could not be read (${called}), and without it nobody knows who is erased.`,
  );
}
