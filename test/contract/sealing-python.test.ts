import { execFile, spawn } from 'node:child_process';
import { createSecretKey, randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it, type TestContext } from 'vitest';
import { type SealingContext, sealValue, subjectKey, wrapSubjectKey } from '../../shared/sealing/index.ts';
import { foundLocalStack } from '../support/found-localstack.ts';
import { EVENT, ROW } from '../support/sealing.ts';

// Its Python is looked for below, and whole when it has started.
await foundLocalStack();

const SCRIPT = join('test', 'vectors', 'make-vectors.py');
const LOCAL = '.local';

/** A Python that has `cryptography`: LocalStack's environment does, and a system's own may. */
async function pythonWithCryptography(context: TestContext): Promise<string> {
  const environments = (existsSync(LOCAL) ? readdirSync(LOCAL) : [])
    .filter((name) => name.startsWith('localstack-'))
    .map((name) => join(LOCAL, name, 'bin', 'python'));
  for (const python of [...environments, 'python3']) {
    try {
      await promisify(execFile)(python, ['-c', 'import cryptography']);
      return python;
    } catch {
      // Not installed there: the next one.
    }
  }
  return context.skip('no Python with the package cryptography is on this machine');
}

async function run(
  python: string,
  mode: string,
  input: string,
): Promise<{ code: number | null; output: string; errors: string }> {
  const child = spawn(python, [SCRIPT, mode], { stdio: 'pipe' });
  const read = { output: '', errors: '' };
  child.stdout.on('data', (chunk: Buffer) => (read.output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (read.errors += chunk.toString()));
  child.stdin.end(input);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('close', resolve);
    child.on('error', reject);
  });
  return { code, ...read };
}

it('the committed vectors are what the other implementation makes', async (context) => {
  const python = await pythonWithCryptography(context);
  const { code, output } = await run(python, 'make', '');
  expect(code).toBe(0);
  const committed = readFileSync(join('test', 'vectors', 'sealing.json'), 'utf8');
  // The committed file is formatted as the project formats JSON.
  expect(JSON.stringify(JSON.parse(output))).toBe(JSON.stringify(JSON.parse(committed)));
});

it('the other implementation opens what this one seals, and notices what it should not open', async (context) => {
  const python = await pythonWithCryptography(context);
  const values: unknown[] = [
    '',
    'Ada',
    'Çağrı 😀',
    0,
    -1.5,
    9007199254740991,
    true,
    false,
    {},
    [],
    { a: [1, { b: null }] },
  ];
  const places: SealingContext[] = [EVENT, ROW, { ...EVENT, pointer: '/a~1b/0' }, { ...ROW, primaryKey: 'A-1' }];
  const cases = places.flatMap((place) =>
    values.map((value) => {
      const secret = randomBytes(32);
      const name = { class: 'contact', keyId: randomBytes(16).toString('base64url'), version: 7 };
      const key = { ...name, secret: secret.toString('hex') };
      return { key, context: place, value, sealed: sealValue(value, subjectKey(name, secret), place) };
    }),
  );
  const [first] = cases;
  const branchSecret = randomBytes(32);
  const salt = randomBytes(16);
  const context1 = { vault: 'v', branchVersion: 1, subject: { kind: 'customer', id: 'K-1' } };
  const key = subjectKey(first!.key, Buffer.from(first!.key.secret, 'hex'));
  const wrapped = {
    branchSecret: branchSecret.toString('hex'),
    key: first!.key,
    context: context1,
    salt: salt.toString('hex'),
    wrapped: wrapSubjectKey(createSecretKey(branchSecret), key, context1, () => salt).toString('hex'),
  };
  const document = { values: cases, wrapped: [wrapped] };
  expect(await run(python, 'open', JSON.stringify(document))).toMatchObject({ code: 0, errors: '' });

  const wrong = { ...document, values: [{ ...first!, value: 'another' }] };
  expect((await run(python, 'open', JSON.stringify(wrong))).code).toBe(1);
});
