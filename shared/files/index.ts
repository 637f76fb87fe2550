import type { Dirent } from 'node:fs';
import { open, readdir } from 'node:fs/promises';

/** Writes a new file, and returns when its content is on the disk. Its name is durable when `syncDirectory` has returned. */
export async function writeDurably(path: string, content: Uint8Array): Promise<void> {
  const handle = await open(path, 'wx');
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** The name of a file is durable when its directory is. */
export async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** The files below a folder that are whole: none where there is no folder yet, and none that is still being written (`….partial`). */
export async function wholeFiles(directory: string, options: { readonly recursive: boolean }): Promise<Dirent[]> {
  const entries = await readdir(directory, { ...options, withFileTypes: true }).catch(noFolder);
  return entries.filter((entry) => entry.isFile() && !entry.name.endsWith('.partial'));
}

function noFolder(error: NodeJS.ErrnoException): never[] {
  if (error.code === 'ENOENT') return [];
  throw error;
}
