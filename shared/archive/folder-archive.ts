import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { syncDirectory, wholeFiles, writeDurably } from '../files/index.ts';
import type { Archive } from './archive.ts';

/** An archive in a folder of this machine, for development and for databases that are backed up with their host. */
export function folderArchive(directory: string): Archive {
  return {
    async put(name, content) {
      const file = join(directory, name);
      await mkdir(dirname(file), { recursive: true });
      // Under another name first: whoever lists the folder never sees half a file.
      const partial = `${file}.${randomUUID()}.partial`;
      try {
        await writeDurably(partial, content);
        await rename(partial, file);
      } catch (error) {
        // Nobody else would remove it, and each run of a janitor whose disk is full would leave one more.
        await rm(partial, { force: true });
        throw error;
      }
      await syncDirectory(dirname(file));
    },
    async *list(prefix) {
      const entries = await wholeFiles(directory, { recursive: true });
      const names = entries.map((entry) =>
        relative(directory, join(entry.parentPath, entry.name)).split(sep).join('/'),
      );
      yield* names.filter((name) => name.startsWith(prefix)).toSorted();
    },
    read: async (name) => createReadStream(join(directory, name)),
  };
}
