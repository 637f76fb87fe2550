import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

const git = (...args: readonly string[]): string =>
  execFileSync('git', ['-C', ROOT, ...args], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 }).trim();

/** Migrations of a version, each with the hash of its content. */
function migrationsOf(revision: string): string[] {
  return git('ls-tree', '-r', revision, 'migrations')
    .split('\n')
    .filter((line) => line !== '');
}

/**
 * The version whose code must run on the schema of today: the last tag, else the oldest version whose migrations are all still there as they were. Undefined
 * without a history, as in a shallow clone.
 */
export function oldVersion(): string | undefined {
  try {
    const [tag] = git('tag', '--merged', 'HEAD', '--sort=-creatordate').split('\n');
    if (tag !== undefined && tag !== '') return tag;
    const now = new Set(migrationsOf('HEAD'));
    return git('rev-list', '--first-parent', '--reverse', 'HEAD')
      .split('\n')
      .find((revision) => {
        const then = migrationsOf(revision);
        return then.length > 0 && then.every((line) => now.has(line));
      });
  } catch {
    return undefined;
  }
}

/**
 * The files of an old version with the migrations of today, in a directory of their own.
 *
 * @returns the directory, and what removes it
 */
export function oldVersionOnNewSchema(revision: string): { directory: string; remove: () => void } {
  const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-old-'));
  const archive = execFileSync('git', ['-C', ROOT, 'archive', revision], { maxBuffer: 256 * 1024 * 1024 });
  execFileSync('tar', ['-x', '-C', directory], { input: archive });
  rmSync(join(directory, 'migrations'), { recursive: true });
  cpSync(join(ROOT, 'migrations'), join(directory, 'migrations'), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  return { directory, remove: () => rmSync(directory, { recursive: true, force: true }) };
}

/** As vitest's JSON reporter writes it. */
export interface OldReport {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message?: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages?: readonly string[];
    }[];
  }[];
}

/** Old tests that do what no code does, or say what was meant to change. */
const EXPECTED: readonly { readonly file: string; readonly says: RegExp; readonly why: string }[] = [
  {
    file: 'test/integration/chaos.test.ts',
    says: /more than one function named "outbox\.find"/,
    why: 'it takes the function away by its name alone, to see the run of chaos catch that; there are two by that name now',
  },
  {
    file: 'test/integration/grants.test.ts',
    says: /^sealed_janitor may do its work/,
    why: 'it deletes from tables; no version had a janitor that did, and the first one calls functions that look before',
  },
  {
    file: 'test/integration/grants.test.ts',
    says: /^no user is taken in by an object of its own/,
    why: 'it lists every function that runs as the owner',
  },
  {
    file: 'test/integration/migrate.test.ts',
    says: /^the migrations of this repository install one area after the other/,
    why: 'it counts the files',
  },
  {
    file: 'test/integration/no-way-out.test.ts',
    says: /cannot truncate a table referenced in a foreign key constraint/,
    why: 'it empties tables as their owner, which newer tables refer to',
  },
  {
    file: 'test/integration/restore.test.ts',
    says: /cannot truncate a table referenced in a foreign key constraint/,
    why: 'as above',
  },
  {
    file: 'test/integration/sample/ledger.test.ts',
    says: /^the ledger follows an invoice [^]*expected \[ \{ …\(8\) \} \] to deeply equal \[ \{ …\(7\) \} \]/,
    why: 'it compares whole rows; there is one column more, which may be empty',
  },
];

/** What failed and is not expected to, a text for each. */
export function unexpectedFailures(report: OldReport, directory: string): string[] {
  return report.testResults.flatMap(({ name, status, message, assertionResults }) => {
    const file = name.slice(directory.length + 1);
    // A file that did not even load has no tests.
    if (assertionResults.length === 0 && status === 'failed') return [`${file}: ${message}`];
    return assertionResults
      .filter((test) => test.status === 'failed')
      .map(({ fullName, failureMessages = [] }) => `${fullName}\n${failureMessages.join('\n')}`)
      .filter((said) => !EXPECTED.some((it) => it.file === file && it.says.test(said)))
      .map((said) => `${file}: ${said.slice(0, 600)}`);
  });
}
