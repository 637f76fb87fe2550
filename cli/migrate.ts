import { join } from 'node:path';
import { parseArgs } from 'node:util';
import pg from 'pg';
import {
  clientConfig,
  databaseConfig,
  migrate,
  type Migration,
  migrationScript,
  pendingMigrations,
  readMigrations,
} from '../shared/database/index.ts';
import { SealedOutboxError } from '../shared/errors/index.ts';

const HELP = `Brings a database up to this version: applies the numbered SQL files that it lacks.

Usage: npm run migrate -- [--areas outbox,inbox] [--print]

  --areas <list>  which of migrations/* to apply, in this order (default: outbox,inbox; keys of
                  personal data need vault, the sample service sample)
  --print         writes the SQL that is pending to the standard output and applies nothing, for those who run it with a tool of their own;
                  it records what it applied, so that this command finds it done
  --help          shows this

The database is the one that the environment names: DATABASE_HOST, DATABASE_PORT (5432), DATABASE_NAME, DATABASE_USER, DATABASE_AUTH
(iam, with AWS_REGION and DATABASE_CA_FILE; or password, with DATABASE_PASSWORD, on this machine only). The user must own the database
or be allowed to create schemas in it, and may create roles; it need not be a superuser. Several may run at once: one works, the
others wait.

Exit code: 0 applied or nothing to do, 1 failed (what was applied before stays), 2 wrong use.
`;

interface Arguments {
  readonly areas: readonly string[];
  readonly print: boolean;
}

/** @returns null where help is asked for. */
function argumentsOf(words: readonly string[]): Arguments | null {
  const { values } = parseArgs({
    args: [...words],
    options: {
      areas: { type: 'string', default: 'outbox,inbox' },
      print: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return null;
  const areas = values.areas.split(',').map((area) => area.trim());
  return { areas, print: values.print };
}

async function run({ areas, print }: Arguments): Promise<void> {
  const config = databaseConfig(process.env);
  const migrations = await readMigrations(join(import.meta.dirname, '..', 'migrations'), areas);
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
    if (print) process.stdout.write(migrationScript(await pendingMigrations(client, migrations)));
    else await apply(client, migrations, where);
  } finally {
    await client.end().catch(() => {});
  }
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
