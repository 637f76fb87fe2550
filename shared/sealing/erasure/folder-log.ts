import { randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncDirectory, wholeFiles, writeDurably } from '../../files/index.ts';
import type { ErasureLog } from './log.ts';

/** A log in a folder of this machine, for development. It must not be on the disk that is restored together with the database. */
export function folderErasureLog(directory: string): ErasureLog {
  return {
    async create(name, content) {
      const file = join(directory, name);
      await mkdir(dirname(file), { recursive: true });
      // Under another name first: whoever lists the folder never sees half an entry. A link, unlike a rename, replaces nothing.
      const partial = `${file}.${randomUUID()}.partial`;
      try {
        await writeDurably(partial, content);
        await link(partial, file);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
        throw error;
      } finally {
        await rm(partial, { force: true });
      }
      await syncDirectory(dirname(file));
      return true;
    },
    async *list(prefix, after) {
      const folder = dirname(`${prefix}.`);
      const entries = await wholeFiles(join(directory, folder), { recursive: false });
      const names = entries.map((entry) => (folder === '.' ? entry.name : `${folder}/${entry.name}`));
      yield* names.filter((name) => name.startsWith(prefix) && name > after).toSorted();
    },
    read: (name) => readFile(join(directory, name)),
  };
}
