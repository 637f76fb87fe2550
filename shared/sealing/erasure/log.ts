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
