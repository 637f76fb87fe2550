import { startChild } from '../harness/process.ts';
import type { BenchDatabase, Connection } from '../harness/server.ts';

export interface JanitorStart {
  readonly connection: Connection;
  readonly keepSeconds: number;
  /** Folder of the archive, or undefined for none. */
  readonly archiveDirectory: string | undefined;
}

export interface JanitorResult {
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly removed: Readonly<Record<string, number>>;
  readonly archivedBytes: number;
  readonly cpuSeconds: number;
}

/** Runs a janitor, as its function does, in a process of its own until nothing old is left. */
export async function runJanitorProcess(
  database: BenchDatabase,
  options: Omit<JanitorStart, 'connection'>,
): Promise<JanitorResult> {
  const child = startChild('janitor-process.ts');
  try {
    return await child.ask<JanitorResult>('run', {
      connection: database.connection('sealed_janitor'),
      ...options,
    } satisfies JanitorStart);
  } finally {
    await child.stop();
  }
}
