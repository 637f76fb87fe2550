import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, rename } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import type { Archive } from './archive.ts';

/** An archive in a folder of this machine, for development and for databases that are backed up with their host. */
export function folderArchive(directory: string): Archive {
  return {
    async put(name, content) {
      const file = join(directory, name);
      await mkdir(dirname(file), { recursive: true });
      // Under another name first: whoever lists the folder never sees half a file.
      const partial = `${file}.${randomUUID()}.partial`;
      const handle = await open(partial, 'wx');
      try {
        await handle.writeFile(content);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(partial, file);
      await syncDirectory(dirname(file));
    },
    async *list(prefix) {
      const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(noFolder);
      const names = entries
        .filter((entry) => entry.isFile() && !entry.name.endsWith('.partial'))
        .map((entry) => relative(directory, join(entry.parentPath, entry.name)).split(sep).join('/'));
      yield* names.filter((name) => name.startsWith(prefix)).toSorted();
    },
    read: async (name) => createReadStream(join(directory, name)),
  };
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

/** Nothing was archived yet. */
function noFolder(error: NodeJS.ErrnoException): never[] {
  if (error.code === 'ENOENT') return [];
  throw error;
}
