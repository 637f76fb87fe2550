/** Where the files of an archive are. Names are paths with `/`; a name stands for its content, so the same name is never written with another one. */
export interface Archive {
  /** Resolves when the file is there for good, and is read by everybody from then on. Writing it again is no error. */
  put(name: string, content: Uint8Array): Promise<void>;
  /** Names that begin with `prefix`, ascending. */
  list(prefix: string): AsyncIterable<string>;
  /** The content, in pieces. */
  read(name: string): Promise<AsyncIterable<Uint8Array>>;
}
