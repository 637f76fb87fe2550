import { execFile } from 'node:child_process';
import { expect, it } from 'vitest';

it.each([0, 1, 3])('a process that used PostgreSQL ends with the code that it set: %i', async (code) => {
  const script = `import '../../local/postgres.ts'; process.exitCode = ${code};`;
  const ended = await new Promise<unknown>((resolve) => {
    const child = execFile(process.execPath, ['--input-type=module', '-e', script], { cwd: import.meta.dirname });
    child.once('exit', resolve);
  });
  expect(ended).toBe(code);
});
