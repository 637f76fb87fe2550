import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { transform } from 'esbuild';

const ROOT = join(import.meta.dirname, '../..');
const GENERATED = 'validators.generated.js';
const EXAMPLE = join(ROOT, 'examples', 'kysely-shop');

/** A project of somebody's in a fresh folder: the example, with the package as npm packs and installs it. */
export interface PackageProject {
  readonly folder: string;
  /** Runs a program there, with the other Node.js first on PATH. @throws Error with all that it said */
  run(command: string, args: readonly string[], env?: Readonly<Record<string, string>>): Promise<string>;
  /** Runs the compiler there. @throws Error with all that it said */
  compile(args: readonly string[]): Promise<string>;
  remove(): void;
}

/**
 * The Node.js of the machine, where it is another one than runs this; else one that npm has. The package must run on it, while the repository needs
 * a newer one.
 */
function otherNode(): string | undefined {
  const own = realpathSync(process.execPath);
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((folder) => !folder.includes('node_modules'))
    .map((folder) => join(folder, 'node'))
    .find((path) => existsSync(path) && realpathSync(path) !== own);
}

/**
 * What the example needs for its stack: linked to the repository's own instead of installed, which would take a minute and 200 MB each time. So the project is fresh but for these three: that
 * the package works with the versions of its peers which npm would choose today, its manifest's ranges say and no test does.
 */
const LINKED = ['aws-cdk-lib', 'constructs', 'esbuild'];

/** Where the machine has no other one. */
const NODE_OF_NPM = { [`node-linux-${process.arch}`]: '22.12.0' };

async function execute(
  command: string,
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const said: Buffer[] = [];
  const out: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => void (out.push(chunk), said.push(chunk)));
  child.stderr.on('data', (chunk: Buffer) => void said.push(chunk));
  const code = await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  if (code !== 0)
    throw new Error(`${command} ${args.join(' ')} ended with ${String(code)}:\n${Buffer.concat(said).toString()}`);
  return Buffer.concat(out).toString();
}

/** Builds the package, packs it, installs it beside the example, compiles that. What npm has fetched before, it does not fetch again. */
export async function packageProject(): Promise<PackageProject> {
  const folder = mkdtempSync(join(tmpdir(), 'sealed-outbox-package-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    await execute(process.execPath, ['scripts/build.ts'], ROOT, process.env);
    await execute('npm', ['pack', '--pack-destination', folder], join(ROOT, 'dist', 'package'), process.env);
    const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'));
    cpSync(EXAMPLE, folder, {
      recursive: true,
      filter: (path) => !/node_modules|[\\/]dist|package-lock/.test(path.slice(EXAMPLE.length)),
    });
    cpSync(join(ROOT, 'test', 'package'), folder, { recursive: true });
    const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const machine = otherNode();
    manifest.dependencies['sealed-outbox'] = `file:${tarball}`;
    manifest.devDependencies = machine === undefined ? NODE_OF_NPM : {};
    writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
    await execute(
      'npm',
      ['install', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'],
      folder,
      process.env,
    );
    // 250 MB that need not be unpacked again.
    for (const name of LINKED) {
      mkdirSync(dirname(join(folder, 'node_modules', name)), { recursive: true });
      symlinkSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name));
    }
    const node = machine ?? join(folder, 'node_modules', '.bin', 'node');
    const PATH = [dirname(node), process.env['PATH']].join(delimiter);
    const run: PackageProject['run'] = (command, args, env = {}) =>
      execute(command === 'node' ? node : command, args, folder, { ...process.env, PATH, ...env });
    await generate(folder, run);
    const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    const compile: PackageProject['compile'] = (args) => run(process.execPath, [compiler, ...args]);
    await compile(['-p', '.']);
    cpSync(join(folder, 'src', GENERATED), join(folder, 'dist', 'src', GENERATED));
    return { folder, run, compile, remove };
  } catch (error) {
    remove();
    throw error;
  }
}

/** The lowest Node.js does not run TypeScript: the command is given the catalogue as JavaScript. */
async function generate(folder: string, run: PackageProject['run']): Promise<void> {
  const { code } = await transform(readFileSync(join(folder, 'src', 'catalogue.ts'), 'utf8'), { loader: 'ts' });
  writeFileSync(join(folder, 'src', 'catalogue.mjs'), code);
  await run('node', ['node_modules/.bin/sealed-outbox', 'generate', 'src/catalogue.mjs']);
}
