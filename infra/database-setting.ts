import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { SealedOutboxError } from '../shared/errors/index.ts';
import type { DatabaseConnection } from './index.ts';
import type { StageName } from './stages.ts';

/** The database is not described, or not completely. Code `DATABASE_SETTING`. */
class DatabaseSettingError extends SealedOutboxError {
  constructor(message: string) {
    super('DATABASE_SETTING', `${message} Nothing was synthesised.`);
  }
}

interface Given {
  /** The context value `database`: an object from cdk.json, or JSON text from `-c database='…'`. */
  readonly context: unknown;
  /** The variable `SEALED_OUTBOX_DATABASE`. Holds a password, so it is no context value, which would be shown and stored. */
  readonly variable: string | undefined;
}

/**
 * Which database the functions connect to.
 *
 * - stage `local`: `SEALED_OUTBOX_DATABASE={"host","port","name","password"}`
 * - other stages: `-c database='{"host","port","name","resourceId","certificateAuthorities"}'`, always with IAM
 *   authentication and TLS; `certificateAuthorities` is the path of a PEM file
 *
 * @throws DatabaseSettingError (`DATABASE_SETTING`) naming what is missing
 */
export function databaseSetting(stage: StageName, given: Given): DatabaseConnection {
  if (stage === 'local') {
    const source = 'The variable SEALED_OUTBOX_DATABASE';
    const value = parse(source, given.variable, `Stage local takes its database from it; "npm start" sets it.`);
    return { ...place(source, value), auth: { kind: 'password', password: text(source, value, 'password') } };
  }
  const source = 'The context value "database"';
  const value = parse(
    source,
    given.context,
    `Stage ${stage} needs an existing database, because Aurora comes with a later version: ` +
      `-c database='{"host":"…","port":5432,"name":"…","resourceId":"cluster-…","certificateAuthorities":"path.pem"}'.`,
  );
  if ('password' in value) {
    throw new DatabaseSettingError(
      `${source} holds a password, which would end up in the template: stage ${stage} uses IAM authentication.`,
    );
  }
  const certificateAuthorities = resolve(text(source, value, 'certificateAuthorities'));
  if (!existsSync(certificateAuthorities)) {
    throw new DatabaseSettingError(`${source} names a file of certificate authorities that does not exist.`);
  }
  return {
    ...place(source, value),
    auth: { kind: 'iam', resourceId: text(source, value, 'resourceId'), certificateAuthorities },
  };
}

type Fields = Readonly<Record<string, unknown>>;

function parse(source: string, given: unknown, remedy: string): Fields {
  if (given === undefined || given === '') throw new DatabaseSettingError(`${source} is not set. ${remedy}`);
  let value: unknown = given;
  if (typeof given === 'string') {
    try {
      value = JSON.parse(given);
    } catch {
      value = undefined;
    }
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new DatabaseSettingError(`${source} is no JSON object. ${remedy}`);
  }
  return value as Fields;
}

function place(source: string, value: Fields): Pick<DatabaseConnection, 'host' | 'port' | 'name'> {
  const port = value['port'] ?? 5432;
  if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > 65535) {
    throw new DatabaseSettingError(`${source} has a "port" that is no number between 1 and 65535.`);
  }
  return { host: text(source, value, 'host'), port, name: text(source, value, 'name') };
}

function text(source: string, value: Fields, field: string): string {
  const found = value[field];
  if (typeof found === 'string' && found !== '') return found;
  throw new DatabaseSettingError(`${source} has no "${field}".`);
}
