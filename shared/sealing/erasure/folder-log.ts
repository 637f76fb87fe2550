import { randomUUID } from 'node:crypto';
import { link, mkdir, open, readdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
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
      const entries = await readdir(join(directory, folder), { withFileTypes: true }).catch(noFolder);
      const names = entries
        .filter((entry) => entry.isFile() && !entry.name.endsWith('.partial'))
        .map((entry) => (folder === '.' ? entry.name : `${folder}/${entry.name}`));
      yield* names.filter((name) => name.startsWith(prefix) && name > after).toSorted();
    },
    read: (name) => readFile(join(directory, name)),
  };
}

async function writeDurably(path: string, content: Uint8Array): Promise<void> {
  const handle = await open(path, 'wx');
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** The name of a file is durable when its directory is. */
async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Nothing was written yet. */
function noFolder(error: NodeJS.ErrnoException): never[] {
  if (error.code === 'ENOENT') return [];
  throw error;
}
