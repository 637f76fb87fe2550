import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../../..');
const CODE = /[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+/;

/** Names that look like codes and are none: of variables, of headers, of states and codes of others. */
const OTHERS = new Set(
  `ABORT_ERR AES_256 EAI_AGAIN ERR_SSL_WRONG_VERSION_NUMBER INSUFFICIENT_DATA LAMBDA_TASK_ROOT LOCAL_PRINCIPAL_HEADER CLEAR_VALUES_FOR
   AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3 AWS_REGION SEALED_OUTBOX_STACK MAIL_PROVIDER_URL MONITOR_INBOX
   DATABASE_AUTH DATABASE_CA_FILE DATABASE_HOST DATABASE_LOGINS DATABASE_NAME DATABASE_PASSWORD DATABASE_POOL_SIZE DATABASE_PORT DATABASE_USER
   ERASURE_DELAY_SECONDS INBOX_KEEP_DAYS JANITOR_ALSO JANITOR_ARCHIVE JANITOR_ERASABLE JANITOR_INDEXES JANITOR_MAX_SECONDS JANITOR_REST
   OPERATOR_ARCHIVE OPERATOR_ERASES OPERATOR_INBOX OPERATOR_QUEUES OPERATOR_VAULT
   OUTBOX_CLUSTER OUTBOX_DESTINATIONS OUTBOX_INSTALLATION OUTBOX_KEEP_DAYS OUTBOX_SLOT RELAY_MAX_SECONDS RELAY_MODE
   SEALING_BRANCH_DAYS SEALING_ERASURE_LOG SEALING_INDEX_DAYS SEALING_KEY_ARN SEALING_VAULT`.split(/\s+/),
);

it('docs/errors.md has every code that the library, its functions and its commands throw or log, and every SQLSTATE of the migrations', () => {
  const sources = globSync('{shared,functions,cli}/**/*.ts', { cwd: ROOT }).filter(
    (path) => !path.includes('generated'),
  );
  const literals = new Set(
    sources.flatMap((path) =>
      [...readFileSync(join(ROOT, path), 'utf8').matchAll(new RegExp(`'(${CODE.source})'`, 'g'))].map(
        ([, name]) => name!,
      ),
    ),
  );
  const document = readFileSync(join(ROOT, 'docs/errors.md'), 'utf8');
  const rows = document.split('\n').filter((line) => line.startsWith('| `'));
  const told = rows.flatMap((row) =>
    [...row.split(' | ')[0]!.matchAll(new RegExp(`\`(${CODE.source})\``, 'g'))].map(([, name]) => name!),
  );
  expect(told.toSorted()).toEqual([...new Set(told)].toSorted());
  expect(new Set(told)).toEqual(new Set([...literals].filter((name) => !OTHERS.has(name))));
  // What is no longer there must not stay in the list.
  expect([...OTHERS].filter((name) => !literals.has(name))).toEqual([]);

  const migrations = globSync('migrations/**/*.sql', { cwd: ROOT });
  const states = migrations.flatMap((path) =>
    [...readFileSync(join(ROOT, path), 'utf8').matchAll(/errcode = '((?:OB|IB|VA)\d{3})'/g)].map(([, state]) => state!),
  );
  expect([...new Set(states)].filter((state) => !document.includes(state) && !/^VA00[23]$/.test(state))).toEqual([]);
});
