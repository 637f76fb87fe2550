import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import pg from 'pg';
import {
  clientConfig,
  databaseConfig,
  ensureLogins,
  isLogin,
  type Login,
  type LoginAuth,
  migrate,
  type Migration,
  migrationScript,
  pendingMigrations,
  readMigrations,
  recordCluster,
  scriptOf,
} from '../shared/database/index.ts';
import { callOf } from './cloud/call.ts';
import { SealedOutboxError } from '../shared/errors/index.ts';
import { giveVault, isVaultAccess, type VaultAccess } from '../shared/sealing/index.ts';

const HELP = `Brings a database up to this version: applies the numbered SQL files that it lacks.

Usage: ${callOf('migrate')} [--areas outbox,inbox] [--print [--logins <json>] [--catalogue <file>] [--cluster <name>]]

  --areas <list>  which of migrations/* to apply, in this order (default: outbox,inbox; keys of
                  personal data need vault, the sample service sample)
  --print         writes the SQL that is pending to the standard output and applies nothing, for those who run it with a tool of their own;
                  it records what it applied, so that this command finds it done
  --logins <json> with --print: also the login users of the functions, as the output with Logins in its name, of a stack with migrations: manual, lists them;
                  with the area vault also the classes and blind indexes that each gets in it
  --catalogue <file>
                  with --print: also the event types and routes that a module exports as "definition"
  --cluster <name>
                  with --print: also the identity of the database cluster, by which relays know a copy of it
  --help          shows this

The database is the one that the environment names: DATABASE_HOST, DATABASE_PORT (5432), DATABASE_NAME, DATABASE_USER, DATABASE_AUTH
(iam, with AWS_REGION and DATABASE_CA_FILE; or password, with DATABASE_PASSWORD, on this machine only). The user must own the database
or be allowed to create schemas in it, and may create roles; it need not be a superuser. Several may run at once: one works, the
others wait.

Exit code: 0 applied or nothing to do, 1 failed (what was applied before stays), 2 wrong use.
`;

interface GivenLogin extends Login {
  readonly vault?: VaultAccess;
}

interface Arguments {
  readonly areas: readonly string[];
  readonly print: boolean;
  readonly logins: readonly GivenLogin[];
  /** Path of a module, or undefined. */
  readonly catalogue: string | undefined;
  readonly cluster: string | undefined;
}

/** @returns null where help is asked for. */
function argumentsOf(words: readonly string[]): Arguments | null {
  const { values } = parseArgs({
    args: [...words],
    options: {
      areas: { type: 'string', default: 'outbox,inbox' },
      print: { type: 'boolean', default: false },
      logins: { type: 'string' },
      catalogue: { type: 'string' },
      cluster: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return null;
  const areas = values.areas.split(',').map((area) => area.trim());
  const { print, logins, catalogue, cluster } = values;
  for (const [name, value] of Object.entries({ logins, catalogue, cluster })) {
    if (value !== undefined && !print) throw new Error(`--${name} goes with --print: a deployment does it by itself.`);
  }
  const given = logins === undefined ? [] : loginsOf(logins);
  if (!areas.includes('vault') && given.some(({ vault }) => vault !== undefined)) {
    throw new Error('--logins names classes of the vault: add vault to --areas.');
  }
  return { areas, print, logins: given, catalogue, cluster };
}

function loginsOf(json: string): readonly GivenLogin[] {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    value = undefined;
  }
  const whole = (it: unknown): it is GivenLogin => {
    if (!isLogin(it)) return false;
    const { vault } = it as Login & { readonly vault?: unknown };
    return vault === undefined || isVaultAccess(vault);
  };
  if (Array.isArray(value) && value.every(whole)) return value;
  throw new Error(
    '--logins is no JSON list of {"user","roles","connections","vault"}; connections is a whole number from 1.',
  );
}

async function run({ print, ...also }: Arguments): Promise<void> {
  const config = databaseConfig(process.env);
  const migrations = await readMigrations(join(import.meta.dirname, '..', 'migrations'), also.areas);
  const client = new pg.Client({ ...clientConfig(config), application_name: 'sealed-outbox-migrate' });
  // A connection that is lost says so in the query that waits for it; without a listener it would end the process.
  client.on('error', () => {});
  const where = `${config.database} on ${config.host}:${config.port}`;
  try {
    await client.connect();
  } catch (cause) {
    throw new SealedOutboxError(
      'DATABASE_UNREACHABLE',
      `${config.user} cannot connect to ${where}: ${reasonOf(cause)}. Nothing was applied.`,
      {
        cause,
      },
    );
  }
  try {
    if (print) {
      process.stdout.write(migrationScript(await pendingMigrations(client, migrations)));
      process.stdout.write(await installationScript(client, also, config));
    } else await apply(client, migrations, where);
  } finally {
    await client.end().catch(() => {});
  }
}

/** What a deployment does after the migrations. */
async function installationScript(
  client: pg.Client,
  { areas, logins, catalogue, cluster }: Omit<Arguments, 'print'>,
  auth: LoginAuth,
): Promise<string> {
  return scriptOf(client, async (db) => {
    await ensureLogins(db, logins, auth);
    if (areas.includes('vault')) await giveVault(db, logins);
    if (catalogue !== undefined) {
      const { catalogueRows } = await import('../shared/events/index.ts');
      const { definition } = await import(pathToFileURL(resolve(catalogue)).href);
      await db.query('select outbox.install_catalogue($1)', [JSON.stringify(catalogueRows(definition))]);
    }
    if (cluster !== undefined) await recordCluster(db, cluster);
  });
}

async function apply(client: pg.Client, migrations: readonly Migration[], where: string): Promise<void> {
  console.log(`migrating ${where}`);
  const { applied, present, newer } = await migrate(client, migrations, (name) => console.log(`  applying ${name}`));
  if (newer.length > 0) {
    console.log(`  left alone, because a newer version applied them: ${newer.join(', ')}`);
  }
  console.log(`${applied.length} applied, ${present} were there`);
}

function reasonOf(cause: unknown): string {
  const { code, message } = cause as { code?: string; message?: string };
  return message === undefined || message === '' ? (code ?? 'unknown error') : message;
}

/** @returns the process's exit code. */
async function main(words: readonly string[]): Promise<number> {
  let parsed: Arguments | null;
  try {
    parsed = argumentsOf(words);
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${HELP}`);
    return 2;
  }
  if (parsed === null) {
    console.log(HELP);
    return 0;
  }
  try {
    await run(parsed);
    return 0;
  } catch (error) {
    console.error(error instanceof SealedOutboxError ? `${error.code}: ${error.message}` : error);
    return 1;
  }
}

process.exitCode = await main(process.argv.slice(2));
