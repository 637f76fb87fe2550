import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { SealedOutboxError } from '../shared/errors/index.ts';
import type { DatabaseConnection } from './index.ts';
import { type Fields, jsonObject } from './setting.ts';
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
 * Which database the functions connect to; undefined where the data stack makes one.
 *
 * - stage `local`: `SEALED_OUTBOX_DATABASE={"host","port","name","password"}`
 * - other stages: an Aurora cluster of their own, or with
 *   `-c database='{"host","port","name","resourceId","certificateAuthorities"}'` one that is there already: a cluster
 *   or an instance of RDS, which take IAM tokens. Always with IAM authentication and TLS. `resourceId` is `DbClusterResourceId` or `DbiResourceId`, `certificateAuthorities`
 *   (default: those of RDS in the region) the path of a PEM file.
 *
 * @throws DatabaseSettingError (`DATABASE_SETTING`) naming what is missing
 */
export function databaseSetting(stage: StageName, given: Given): DatabaseConnection | undefined {
  if (stage === 'local') {
    const source = 'The variable SEALED_OUTBOX_DATABASE';
    const value = parse(source, given.variable, `Stage local takes its database from it; "npm start" sets it.`);
    return { ...place(source, value), auth: { kind: 'password', password: text(source, value, 'password') } };
  }
  if (given.context === undefined || given.context === '') return undefined;
  const source = 'The context value "database"';
  const value = parse(
    source,
    given.context,
    `Give an existing database as -c database='{"host":"…","port":5432,"name":"…","resourceId":"cluster-…"}', or none for a new one.`,
  );
  if ('password' in value) {
    throw new DatabaseSettingError(
      `${source} holds a password, which would end up in the template: stage ${stage} uses IAM authentication.`,
    );
  }
  const resourceId = text(source, value, 'resourceId');
  if (value['certificateAuthorities'] === undefined)
    return { ...place(source, value), auth: { kind: 'iam', resourceId } };
  const certificateAuthorities = resolve(text(source, value, 'certificateAuthorities'));
  if (!existsSync(certificateAuthorities)) {
    throw new DatabaseSettingError(`${source} names a file of certificate authorities that does not exist.`);
  }
  return { ...place(source, value), auth: { kind: 'iam', resourceId, certificateAuthorities } };
}

function parse(source: string, given: unknown, remedy: string): Fields {
  if (given === undefined || given === '') throw new DatabaseSettingError(`${source} is not set. ${remedy}`);
  const value = jsonObject(given);
  if (value === undefined) throw new DatabaseSettingError(`${source} is no JSON object. ${remedy}`);
  return value;
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
