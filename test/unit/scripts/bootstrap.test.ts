import { spawn } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { installFailure, installReason } from '../../../scripts/bootstrap.mjs';

const LOCK = {
  packages: {
    '': { name: 'workspace' },
    'node_modules/pg': { version: '8.0.0' },
    'node_modules/fsevents': { version: '2.0.0', optional: true },
  },
};
const INSTALLED = { packages: { 'node_modules/pg': { version: '8.0.0' } } };

let root = '';

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'bootstrap-'));
  mkdirSync(join(root, 'scripts'));
  mkdirSync(join(root, 'node_modules', '.bin'), { recursive: true });
  copyFileSync('scripts/bootstrap.mjs', join(root, 'scripts', 'bootstrap.mjs'));
  symlinkSync(process.execPath, join(root, 'node_modules', '.bin', 'node'));
  write('package-lock.json', LOCK);
  write('node_modules/.package-lock.json', INSTALLED);
});

afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

function write(path: string, content: unknown): void {
  writeFileSync(join(root, path), typeof content === 'string' ? content : JSON.stringify(content));
}

/** Runs the copy of the bootstrap; `onOutput` may signal it. */
async function bootstrap(
  args: string[],
  options: { path?: string; onOutput?: (text: string, kill: (signal: NodeJS.Signals) => void) => void } = {},
): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, [join(root, 'scripts', 'bootstrap.mjs'), ...args], {
    cwd: root,
    env: { PATH: options.path ?? process.env['PATH'] ?? '' },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      options.onOutput?.(output, (signal) => child.kill(signal));
    });
  }
  const code = await new Promise<number | null>((settle) => {
    child.on('close', settle);
  });
  return { code, output };
}

describe('whether the packages are those of the lock file', () => {
  test('they are, though an optional one for another platform is absent', () => {
    expect(installReason(root)).toBeNull();
  });

  test('they are not after an interrupted installation', () => {
    rmSync(join(root, 'node_modules', '.package-lock.json'));
    expect(installReason(root)).toMatch(/missing or incomplete/);
  });

  test('they are not when a version moved, a package came or a package went', () => {
    write('node_modules/.package-lock.json', { packages: { 'node_modules/pg': { version: '7.0.0' } } });
    expect(installReason(root)).toBe('node_modules/pg differs from the lock file');
    write('node_modules/.package-lock.json', { packages: {} });
    expect(installReason(root)).toBe('node_modules/pg is not installed');
    write('node_modules/.package-lock.json', {
      packages: { ...INSTALLED.packages, 'node_modules/left': { version: '1.0.0' } },
    });
    expect(installReason(root)).toBe('node_modules/left is not in the lock file');
  });
});

describe('one sentence with the remedy', () => {
  test.each([
    ['npm error code ENOSPC', /disk is full: free/],
    ['npm warn tar TAR_ENTRY_ERROR ENOSPC: no space left on device, write', /disk is full: free/],
    ['npm error code EACCES', /may not write/],
    ['npm error code ENOTFOUND', /cannot be reached: check the network/],
    ['npm error code EINTEGRITY', /npm cache clean/],
    ['npm error code EUSAGE', /run npm install/],
  ])('for %s', (output, sentence) => {
    expect(installFailure(output)).toMatch(sentence);
    expect(installFailure(output)).not.toContain('\n');
  });

  test('for an unknown failure the end of what npm wrote', () => {
    expect(installFailure('something else')).toContain('something else');
  });
});

describe('handing over', () => {
  test('runs the script under the installed Node with its arguments, its folder first on PATH, and its exit code', async () => {
    write('work.ts', `console.log(JSON.stringify([process.argv.slice(2), process.env.PATH])); process.exitCode = 7;`);
    const { code, output } = await bootstrap(['work.ts', '--check', 'a b']);
    const [args, path] = JSON.parse(output) as [string[], string];
    expect(code).toBe(7);
    expect(args).toEqual(['--check', 'a b']);
    expect(path.split(delimiter)[0]).toBe(join(root, 'node_modules', '.bin'));
  });

  test('passes a signal on once, however often it comes', async () => {
    write(
      'work.ts',
      `let count = 0;
       process.on('SIGINT', () => {
         count += 1;
         setTimeout(() => { console.log('signals ' + count); process.exit(3); }, 200);
       });
       setInterval(() => {}, 1000);
       console.log('ready');`,
    );
    const sent: string[] = [];
    const { code, output } = await bootstrap(['work.ts'], {
      onOutput: (text, kill) => {
        if (!text.includes('ready') || sent.length > 0) return;
        sent.push('SIGINT');
        kill('SIGINT');
        setTimeout(() => kill('SIGINT'), 50);
      },
    });
    expect(output).toContain('signals 1');
    expect(code).toBe(3);
  });

  test('ends the script when npm was killed', async () => {
    write(
      'work.ts',
      `process.on('SIGTERM', () => { console.log('told to end'); process.exit(); });
      setInterval(() => {}, 1000);
      console.log('ready');`,
    );
    // As npm without `exec`: the shell is the parent, and it dies without a word.
    const command = `"${process.execPath}" "${join(root, 'scripts', 'bootstrap.mjs')}" work.ts & wait`;
    const shell = spawn('sh', ['-c', command], { cwd: root, env: { ...process.env, npm_lifecycle_event: 'start' } });
    let output = '';
    shell.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      if (output.endsWith('ready\n')) shell.kill('SIGKILL');
    });
    await new Promise((settle) => {
      shell.on('close', settle);
    });
    expect(output).toContain('told to end');
  });

  test('ends with 128 + the number of the signal that ended the script', async () => {
    write('work.ts', `process.kill(process.pid, 'SIGKILL');`);
    expect((await bootstrap(['work.ts'])).code).toBe(137);
  });

  test('installs first when packages are missing, and says what failed', async () => {
    rmSync(join(root, 'node_modules', '.package-lock.json'));
    const folder = join(root, 'fake');
    mkdirSync(folder);
    writeFileSync(join(folder, 'npm'), `#!/bin/sh\necho "asked for $1"\necho 'npm error code ENOSPC' >&2\nexit 228\n`);
    chmodSync(join(folder, 'npm'), 0o755);
    write('work.ts', `console.log('never')`);
    const { code, output } = await bootstrap(['work.ts'], { path: `${folder}${delimiter}${process.env['PATH']}` });
    expect(code).toBe(1);
    expect(output).toMatch(/^Installing the dependencies with npm ci.*\nThe disk is full: [^\n]*\n$/);
  });

  test('makes the generated modules first where one is missing, and says why nothing runs where that fails', async () => {
    const sources = ['functions/sample/catalogue/definition.ts', 'functions/operator/schemas.ts'];
    for (const source of sources) {
      mkdirSync(dirname(join(root, source)), { recursive: true });
      write(source, '');
    }
    write(
      'scripts/generate.ts',
      `import { writeFileSync } from 'node:fs';
       for (const file of ${JSON.stringify(sources)}) {
         writeFileSync(file.replace(/[^/]+$/, 'validators.generated.js'), '');
       }`,
    );
    write('work.ts', `console.log('worked')`);
    expect((await bootstrap(['work.ts'])).output).toMatch(/^Making the validators [^\n]*\nworked\n$/);
    expect((await bootstrap(['work.ts'])).output).toBe('worked\n');
    rmSync(join(root, 'functions/operator/validators.generated.js'));
    write('scripts/generate.ts', `throw new Error('no such schema')`);
    const { code, output } = await bootstrap(['work.ts']);
    expect(code).toBe(1);
    expect(output).toMatch(/npm run generate failed:\n[^]*no such schema/);
    expect(output).not.toContain('worked');
  });
});
