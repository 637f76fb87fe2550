import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { ensureLogins, migrate, readMigrations } from '../../shared/database/index.ts';
import {
  folderErasureLog,
  type Keyring,
  postgresRotation,
  postgresVault,
  type RotationReport,
  runRotation,
} from '../../shared/sealing/index.ts';
import { noMetrics, silentLog } from '../../shared/telemetry/index.ts';
import { asSuperuser, createDatabase, type LocalPostgres, MIGRATOR } from '../postgres.ts';
import { drillClock, type Kept, open, processOn, sealFor, VAULT } from './clients.ts';
import { DRILL_KMS_KEY, drillKms } from './drill-kms.ts';
import { drillErasures } from './erasures.ts';
import { copyVault, pasteVault } from './vault-copy.ts';

export interface DrillOptions {
  readonly server: Pick<LocalPostgres, 'port' | 'password'>;
  /** Whose values are sealed, in two classes each. */
  readonly persons: number;
  readonly write: (line: string) => void;
  /** Called when the backup is taken: what happens to backups. */
  readonly onBackup?: (directory: string) => Promise<void>;
}

const CLASSES = ['contact', 'tax'];
const LOGINS = [
  { user: 'drill_service', roles: ['vault_writer', 'vault_rotator'] },
  { user: 'drill_eraser', roles: ['vault_eraser'] },
] as const;
const [SERVICE, ERASER] = LOGINS;
/** Asks to be erased, before the backup is taken and after it. */
const [GONE, STAYS] = ['gone', 'stays'];
/** Sealed after the backup: what a backup cannot bring back. */
const AFTER = 5;

/**
 * Takes a backup of a vault in the middle of a rotation, loses the vault, and brings it back: what was sealed before the backup must open again, in cold
 * processes and in warm ones, the rotation must come to its end, and who was erased after the backup must stay so.
 *
 * @returns whether it was all as it must be
 */
export async function runDrill({ server, persons, write, onBackup }: DrillOptions): Promise<boolean> {
  const directory = await mkdtemp(join(tmpdir(), 'sealed-outbox-drill-'));
  const pools: pg.Pool[] = [];
  const databases = ['drill_vault', 'drill_restored'];
  try {
    const kms = drillKms();
    const clock = drillClock();
    // Beside the backups, and in none of them.
    const log = folderErasureLog(join(directory, 'erasures'));
    let { service: pool, eraser } = await freshVault(server, 'drill_vault', pools);
    await asOwner(server, 'drill_vault', (owner) =>
      owner.query('select vault.set_access($1, $2, $3)', [SERVICE.user, [], CLASSES]),
    );
    let erasures = drillErasures(eraser, kms, log);
    const newProcess = () => processOn(() => pool, kms, log, clock);
    const rotate = (more: { now?: string[]; page?: number; budgetMs?: number } = {}): Promise<RotationReport> =>
      runRotation({
        name: VAULT,
        vault: postgresRotation(pool),
        keys: postgresVault(pool),
        kms,
        kmsKey: DRILL_KMS_KEY,
        budgetMs: 600_000,
        rest: 0,
        clock: { monotonic: () => performance.now(), sleep: async () => {} },
        log: silentLog,
        metrics: noMetrics,
        ...more,
      });
    const wrong: string[] = [];
    const say = (is: boolean, what: string): void => {
      if (!is) wrong.push(what);
      write(`  ${is ? '✓' : '✗'} ${what}`);
    };

    const expectOpen = async (
      opened: number,
      closed: Readonly<Record<string, number>>,
      what: string,
      look: () => ReturnType<typeof open>,
    ): Promise<void> => {
      const found = await look();
      const is = found.opened === opened && JSON.stringify(found.closed) === JSON.stringify(closed);
      say(is, is ? what : `${what}: ${found.opened} open, ${JSON.stringify(found.closed)} do not`);
    };

    write('Before');
    const warm = newProcess();
    const ids = Array.from({ length: persons }, (_, index) => `person-${index}`);
    const kept: Kept[] = [];
    for (const className of CLASSES) kept.push(...(await sealFor(warm, className, ids)));
    const [gone, stays] = [await sealForAll(warm, GONE), await sealForAll(warm, STAYS)];
    await erasures.inADay.erase({ subject: customer(STAYS) });
    await rotate();
    // A page, and the time is over.
    const half = await rotate({ now: ['contact'], page: Math.ceil(persons / 2), budgetMs: 0 });
    say(
      half.rewrapped > 0 && half.retired.length === 1,
      `${kept.length} values of ${persons} persons are sealed; a rotation of branch keys is half done`,
    );

    write('Backup');
    const copy = await asOwner(server, 'drill_vault', (owner) => copyVault(owner, directory));
    say(
      copy.rows > kept.length,
      `${copy.rows} rows of the vault, ${(copy.bytes / 1024).toFixed(0)} KiB, wrapped keys only`,
    );
    await onBackup?.(directory);
    await rotate({ now: ['contact'] });
    const later = await sealFor(
      newProcess(),
      'contact',
      Array.from({ length: AFTER }, (_, index) => `late-${index}`),
    );
    say(
      (await open(newProcess(), later)).opened === AFTER,
      `after it the rotation goes on, and ${AFTER} more persons come`,
    );

    const erased = await erasures.now.erase({ subject: customer(GONE) });
    const takenBack = await erasures.inADay.cancel(customer(STAYS));
    say(
      erased.outcome === 'done' && takenBack.length === CLASSES.length,
      'one person is erased, and one takes back what was asked for before',
    );

    write('The vault is lost');
    const warmKeys = kept.slice(0, 1000);
    await open(warm, warmKeys);
    await asSuperuser(server, 'postgres', (admin) => admin.query('drop database drill_vault with (force)'));
    await expectOpen(
      warmKeys.length,
      {},
      'a process that has the keys in memory opens values for up to five minutes',
      () => open(warm, warmKeys),
    );
    clock.pass(6);
    await expectOpen(
      0,
      { SEALING_UNAVAILABLE: warmKeys.length },
      'after that it does not: SEALING_UNAVAILABLE, messages go back to their queues',
      () => open(warm, warmKeys),
    );
    await expectOpen(0, { SEALING_UNAVAILABLE: kept.length }, 'a process that starts now opens nothing', () =>
      open(newProcess(), kept),
    );
    say(
      (await sealFor(newProcess(), 'contact', ['new']).catch(codeOf)) === 'SEALING_UNAVAILABLE',
      'nothing is sealed, so nothing is written in clear',
    );

    write('Restore');
    const startedAt = performance.now();
    ({ service: pool, eraser } = await freshVault(server, 'drill_restored', pools));
    erasures = drillErasures(eraser, kms, log);
    const restored = await asOwner(server, 'drill_restored', (owner) => pasteVault(owner, directory));
    say(
      restored === copy.rows,
      `${restored} rows into a fresh database, in ${((performance.now() - startedAt) / 1000).toFixed(1)} s`,
    );
    await expectOpen(kept.length, {}, 'all values from before the backup open, in a process that starts now', () =>
      open(newProcess(), kept),
    );
    await expectOpen(warmKeys.length, {}, 'and in one that was there all the time', () => open(warm, warmKeys));
    await expectOpen(
      0,
      { SEALING_KEY_UNKNOWN: AFTER },
      `${AFTER} values of persons who came after the backup are lost: SEALING_KEY_UNKNOWN`,
      () => open(newProcess(), later),
    );

    const { keys: back } = await erasures.standing(GONE);
    await expectOpen(
      0,
      { erased: gone.length },
      `who was erased after the backup stays so, although its ${back} keys are back: the log is read first`,
      () => open(newProcess(), gone),
    );

    write('Onwards');
    const applied = await erasures.catchUp();
    const after = await erasures.standing(GONE);
    say(
      back === CLASSES.length && applied === 1 && after.keys === 0 && after.through === 1,
      'the janitor does what the log says: these keys are gone here, too',
    );
    const { outcome } = await erasures.now.status(customer(STAYS));
    const cancelled = await erasures.now.cancel(customer(STAYS));
    say(
      outcome === 'waiting' && cancelled.length === CLASSES.length,
      'what was taken back after the backup is asked for again, until an operator takes it back once more',
    );
    await expectOpen(stays.length, {}, 'and then these values go on opening', () => open(newProcess(), stays));
    await asOwner(server, 'drill_restored', (owner) =>
      owner.query(`update vault.canary set opened_at = opened_at - interval '1 day'`),
    );
    const on = await rotate();
    say(!on.failed && on.opened.length === CLASSES.length, `the canaries of ${CLASSES.length} classes open`);
    await asOwner(server, 'drill_restored', (owner) =>
      owner.query(`update vault.branch_key set retired_at = retired_at - interval '1 hour' where state = 'retired'`),
    );
    const end = await rotate();
    say(
      on.rewrapped > 0 && end.destroyed.length === 1,
      'the rotation comes to its end; an hour later the old branch key is destroyed',
    );
    kept.push(...(await sealFor(warm, 'contact', ['late-0', 'new'])));
    await expectOpen(kept.length, {}, 'new values are sealed, and all open', () => open(newProcess(), kept));

    write(wrong.length === 0 ? 'The drill passed.' : `The drill FAILED: ${wrong.length} of its checks.`);
    return wrong.length === 0;
  } finally {
    await Promise.allSettled(pools.map((it) => it.end()));
    for (const name of databases) {
      await asSuperuser(server, 'postgres', (admin) => admin.query(`drop database if exists ${name} with (force)`));
    }
    await rm(directory, { recursive: true, force: true });
  }
}

/** A migrated vault without a row, and pools of the service's login and of the one that erases. */
async function freshVault(
  server: DrillOptions['server'],
  database: string,
  pools: pg.Pool[],
): Promise<{ service: pg.Pool; eraser: pg.Pool }> {
  await createDatabase(server, database);
  await asOwner(server, database, async (owner) => {
    await migrate(owner, await readMigrations(join(import.meta.dirname, '../../migrations'), ['vault']));
    await ensureLogins(owner, LOGINS, { auth: 'password', password: server.password });
  });
  const poolOf = (user: string): pg.Pool => {
    const pool = new pg.Pool({ ...connection(server, database, user), max: 4 });
    // The lost database cuts its connections.
    pool.on('error', () => {});
    pools.push(pool);
    return pool;
  };
  return { service: poolOf(SERVICE.user), eraser: poolOf(ERASER.user) };
}

const customer = (id: string) => ({ kind: 'customer', id });

/** Values of one person, of each class. */
async function sealForAll(keyring: Keyring, person: string): Promise<Kept[]> {
  return (await Promise.all(CLASSES.map((className) => sealFor(keyring, className, [person])))).flat();
}

async function asOwner<T>(
  server: DrillOptions['server'],
  database: string,
  work: (owner: pg.Client) => Promise<T>,
): Promise<T> {
  const owner = new pg.Client(connection(server, database, MIGRATOR));
  // A server that stops takes idle connections with it; without a listener that ends the process. A query that waits fails by itself.
  owner.on('error', () => {});
  await owner.connect();
  try {
    return await work(owner);
  } finally {
    await owner.end();
  }
}

function connection(server: DrillOptions['server'], database: string, user: string): pg.ClientConfig {
  return { host: '127.0.0.1', port: server.port, database, user, password: server.password };
}

function codeOf(error: unknown): string {
  return (error as { readonly code?: string }).code ?? 'no code';
}
