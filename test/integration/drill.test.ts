import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runDrill } from '../../local/drill/drill.ts';
import { asSuperuser, type LocalPostgres, startPostgres } from '../../local/postgres.ts';

let server: LocalPostgres;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server?.stop());

describe('the drill', () => {
  it('loses a vault in the middle of a rotation, and all that was sealed before the backup opens again, but of whom was erased since', async () => {
    const lines: string[] = [];
    expect(await runDrill({ server, persons: 12, write: (line) => lines.push(line) })).toBe(true);
    expect(lines.filter((line) => line.includes('✗'))).toEqual([]);
    expect(lines.filter((line) => line.includes('✓'))).toHaveLength(19);
    expect(lines.at(-1)).toBe('The drill passed.');
  });

  it('fails, and says where, with a backup that lacks one key', async () => {
    const lines: string[] = [];
    const onBackup = async (directory: string): Promise<void> => {
      const file = join(directory, 'subject_key.ndjson');
      const [, ...rest] = (await readFile(file, 'utf8')).split('\n');
      await writeFile(file, rest.join('\n'));
    };
    expect(await runDrill({ server, persons: 4, write: (line) => lines.push(line), onBackup })).toBe(false);
    expect(lines).toContainEqual(
      expect.stringMatching(/✗ all values from before the backup open.*"SEALING_KEY_UNKNOWN":1/),
    );
    expect(lines.at(-1)).toMatch(/^The drill FAILED/);
  });

  it('leaves no database behind', async () => {
    const { rows } = await asSuperuser(server, 'postgres', (admin) =>
      admin.query(`select from pg_database where datname ~ '^drill'`),
    );
    expect(rows).toEqual([]);
  });

  it('that is interrupted ends its server, and leaves nothing behind', async () => {
    const TMPDIR = await mkdtemp(join(tmpdir(), 'interrupted-'));
    try {
      await chmod(TMPDIR, 0o755);
      const drill = spawn(process.execPath, ['local/drill/main.ts'], { env: { ...process.env, TMPDIR } });
      await once(drill.stdout, 'data');
      drill.kill('SIGINT');
      expect(await once(drill, 'exit')).toEqual([130, null]);
      expect(await readdir(TMPDIR)).toEqual([]);
    } finally {
      await rm(TMPDIR, { recursive: true, force: true });
    }
  });
});
