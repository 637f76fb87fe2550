import type { ErasureLog } from '../../shared/sealing/index.ts';

export interface MemoryErasureLog extends ErasureLog {
  readonly files: Map<string, Uint8Array>;
  /** What every call rejects with from now on; null: it works. */
  failure: Error | null;
  /** Runs before a file is created. */
  beforeCreate: (name: string) => Promise<void>;
  /** Runs when a file was created, before anybody hears of it. */
  afterCreate: (name: string) => Promise<void>;
  lists: number;
  /** What the entries say, in order. */
  entries(): Record<string, unknown>[];
}

/** A log of erasures in memory that fails as the test says. */
export function memoryErasureLog(): MemoryErasureLog {
  const files = new Map<string, Uint8Array>();
  const fail = (): void => {
    if (log.failure !== null) throw log.failure;
  };
  const log: MemoryErasureLog = {
    files,
    failure: null,
    beforeCreate: () => Promise.resolve(),
    afterCreate: () => Promise.resolve(),
    lists: 0,
    async create(name, content) {
      await log.beforeCreate(name);
      fail();
      if (files.has(name)) return false;
      files.set(name, content);
      await log.afterCreate(name);
      return true;
    },
    async *list(prefix, after) {
      log.lists += 1;
      await Promise.resolve();
      fail();
      yield* [...files.keys()].filter((name) => name.startsWith(prefix) && name > after).toSorted();
    },
    async read(name) {
      await Promise.resolve();
      fail();
      const content = files.get(name);
      if (content === undefined) throw new Error('no such file');
      return content;
    },
    entries: () =>
      [...files]
        .filter(([name]) => name.startsWith('entry/'))
        .toSorted(([a], [b]) => (a < b ? -1 : 1))
        .map(([, content]) => JSON.parse(Buffer.from(content).toString()) as Record<string, unknown>),
  };
  return log;
}
