import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { clientConfig, databaseConfig, DatabaseConfigError } from '../../../shared/database/index.ts';

const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-config-'));
const authorities = join(directory, 'rds.pem');
writeFileSync(authorities, 'the authorities');
afterAll(() => rmSync(directory, { recursive: true }));

const PASSWORD = {
  DATABASE_HOST: '127.0.0.1',
  DATABASE_PORT: '6543',
  DATABASE_NAME: 'invoices',
  DATABASE_USER: 'sealed_relay',
  DATABASE_AUTH: 'password',
  DATABASE_PASSWORD: 'not a secret',
};
const IAM = {
  DATABASE_HOST: 'db.cluster.eu-central-1.rds.amazonaws.com',
  DATABASE_NAME: 'invoices',
  DATABASE_USER: 'sealed_relay',
  AWS_REGION: 'eu-central-1',
  DATABASE_CA_FILE: authorities,
};

describe('the environment of a database', () => {
  it('describes one on this machine', () => {
    expect(databaseConfig(PASSWORD)).toEqual({
      host: '127.0.0.1',
      port: 6543,
      database: 'invoices',
      user: 'sealed_relay',
      auth: 'password',
      password: 'not a secret',
    });
  });

  it('describes one on RDS: IAM and port 5432 are the default', () => {
    expect(databaseConfig(IAM)).toEqual({
      host: IAM.DATABASE_HOST,
      port: 5432,
      database: 'invoices',
      user: 'sealed_relay',
      auth: 'iam',
      region: 'eu-central-1',
      certificateAuthorities: 'the authorities',
    });
  });

  it.each(['localhost', '127.0.0.1', '::1'])('takes a password for %s', (host) => {
    expect(databaseConfig({ ...PASSWORD, DATABASE_HOST: host })).toMatchObject({ host, auth: 'password' });
  });

  it.each(['10.0.0.5', 'db.example.com', '0.0.0.0', '127.0.0.1.example.com', 'localhost.example.com'])(
    'refuses a password for %s, where it would travel unencrypted',
    (host) => {
      const read = () => databaseConfig({ ...PASSWORD, DATABASE_HOST: host });
      expect(read).toThrow(DatabaseConfigError);
      expect(read).toThrow('DATABASE_AUTH=iam');
      expect(read).not.toThrow('not a secret');
    },
  );

  it.each([
    ...['DATABASE_HOST', 'DATABASE_NAME', 'DATABASE_USER', 'AWS_REGION', 'DATABASE_CA_FILE'].map(
      (name) => [name, IAM] as const,
    ),
    ...['DATABASE_HOST', 'DATABASE_NAME', 'DATABASE_USER', 'DATABASE_PASSWORD'].map(
      (name) => [name, PASSWORD] as const,
    ),
  ])('names %s when it is missing or empty', (name, env) => {
    for (const value of [undefined, '']) {
      const read = () => databaseConfig({ ...env, [name]: value });
      expect(read).toThrow(
        expect.objectContaining({ code: 'DATABASE_CONFIG', message: expect.stringContaining(name) }),
      );
    }
  });

  it.each(['0', '65536', '-1', '54.32', 'postgres', ''])('refuses the port %j', (port) => {
    expect(() => databaseConfig({ ...PASSWORD, DATABASE_PORT: port })).toThrow('DATABASE_PORT');
  });

  it('refuses a way to log in that it does not know', () => {
    expect(() => databaseConfig({ ...PASSWORD, DATABASE_AUTH: 'trust' })).toThrow('DATABASE_AUTH');
  });

  it('names the variable when the file of certificate authorities cannot be read', () => {
    const read = () => databaseConfig({ ...IAM, DATABASE_CA_FILE: join(directory, 'missing.pem') });
    expect(read).toThrow(
      expect.objectContaining({ code: 'DATABASE_CONFIG', message: expect.stringContaining('DATABASE_CA_FILE') }),
    );
  });
});

describe('how a client connects', () => {
  it('checks the certificate and the name of every host but this machine', () => {
    expect(clientConfig(databaseConfig(IAM)).ssl).toEqual({
      ca: 'the authorities',
      rejectUnauthorized: true,
      servername: IAM.DATABASE_HOST,
    });
    expect(clientConfig(databaseConfig(PASSWORD))).toMatchObject({ ssl: false, password: 'not a secret' });
  });

  it('makes a new IAM token at every connect, because one lives for 15 minutes', () => {
    expect(clientConfig(databaseConfig(IAM)).password).toBeTypeOf('function');
  });
});
