import { createSecretKey, randomBytes } from 'node:crypto';
import type pg from 'pg';
import { subjectKey, wrapSubjectKey } from '../../shared/sealing/index.ts';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { coresInUse } from '../harness/cores.ts';
import { type Figure, median, quantile } from '../harness/figure.ts';
import { startChild } from '../harness/process.ts';
import type { BenchDatabase, Connection } from '../harness/server.ts';
import { startWriters, write, type Written } from '../harness/writers.ts';

const KEYS = 1_000_000;
/** Appends a second, beside it. */
const RATE = 500;
const MOST_SECONDS = 600;
/** Of the load without, before and after. */
const ALONE_SECONDS = 20;

export interface RewrapStart {
  readonly connection: Connection;
  readonly vault: string;
  /** Hexadecimal secrets of the branch keys, by version. */
  readonly branches: Readonly<Record<string, string>>;
  /** Ends it after so many milliseconds; the next one goes on. */
  readonly budgetMs: number;
}

export interface RewrapResult {
  readonly startedAt: number;
  readonly endedAt: number;
  readonly rewrapped: number;
  /** Whether it came to its end. */
  readonly ended: boolean;
  readonly cpuSeconds: number;
}

/** Persons' keys as a keyring makes them, under the first of two branch keys. */
async function preloadKeys(client: pg.Client, keys: number, vault: string): Promise<Record<string, string>> {
  const secrets = { 1: randomBytes(32), 2: randomBytes(32) };
  const branch = createSecretKey(secrets[1]);
  await client.query(
    `insert into vault.branch_key (class, version, kms_key, wrapped) values ('contact', 1, 'bench', '\\x01')`,
  );
  const BATCH = 5_000;
  for (let done = 0; done < keys; done += BATCH) {
    const rows = Array.from({ length: Math.min(BATCH, keys - done) }, (_, index) => {
      const subject = { kind: 'customer', id: `C-${done + index}` };
      const key = subjectKey(
        { class: 'contact', keyId: randomBytes(16).toString('base64url'), version: 1 },
        randomBytes(32),
      );
      return {
        id: subject.id,
        keyId: key.keyId,
        wrapped: wrapSubjectKey(branch, key, { vault, branchVersion: 1, subject }),
      };
    });
    await client.query(
      `insert into vault.subject_key (class, key_id, version, subject_kind, subject_id, branch_version, wrapped)
       select 'contact', k.key_id, 1, 'customer', k.id, 1, k.wrapped
         from unnest($1::text[], $2::text[], $3::bytea[]) as k (key_id, id, wrapped)`,
      [rows.map((row) => row.keyId), rows.map((row) => row.id), rows.map((row) => row.wrapped)],
    );
  }
  await client.query(`
    with retired as (update vault.branch_key set state = 'retired' where class = 'contact' returning class)
    insert into vault.branch_key (class, version, kms_key, wrapped) select class, 2, 'bench', '\\x02' from retired`);
  return Object.fromEntries(Object.entries(secrets).map(([version, secret]) => [version, secret.toString('hex')]));
}

async function rewrapIn(database: BenchDatabase, start: Omit<RewrapStart, 'connection'>): Promise<RewrapResult> {
  const child = startChild('rewrap-process.ts');
  try {
    return await child.ask<RewrapResult>('run', {
      connection: database.connection('sealed_janitor'),
      ...start,
    } satisfies RewrapStart);
  } finally {
    await child.stop();
  }
}

async function run(bench: Bench): Promise<Figure[]> {
  const keys = sized(bench, KEYS);
  const database = await bench.server.database();
  try {
    const owner = await database.connect('sealed_migrator');
    bench.note(`${keys.toLocaleString('en-US')} keys of persons`);
    const vault = 'bench';
    const branches = await preloadKeys(owner, keys, vault);
    await owner.query(`select vault.set_access('sealed_janitor', '{}', '{contact}')`);
    const admin = await database.connect('postgres');
    await admin.query('vacuum analyze vault.subject_key');
    await bench.server.recycleWal();
    const load = (seconds: number): Promise<Written[]> => write(database, { rate: RATE, seconds });
    await load(3);

    bench.note('the load alone');
    const coresAlone = coresInUse();
    const before = await load(ALONE_SECONDS);
    const busyAlone = coresAlone();
    bench.note('beside it, first for a moment: what is ended goes on');
    const first = await rewrapIn(database, { vault, branches, budgetMs: 1_000 });
    const rewrapping = rewrapIn(database, { vault, branches, budgetMs: MOST_SECONDS * 1000 });
    const coresBeside = coresInUse();
    const writers = startWriters(database, { rate: RATE, seconds: MOST_SECONDS });
    const second = await rewrapping;
    const busyBeside = coresBeside();
    const beside = await writers.end();
    bench.note('the load alone again');
    await load(6);
    const after = await load(ALONE_SECONDS);

    const { rows } = await owner.query(
      `select count(*)::integer as left from vault.subject_key where class = 'contact' and branch_version = 1`,
    );
    if (rows[0].left !== 0) throw new Error(`${rows[0].left} keys are still under the old branch key`);
    if (first.rewrapped === 0 || first.ended || !second.ended)
      throw new Error('it was to be ended once, and then to come to its end');
    const { startedAt, endedAt, rewrapped, cpuSeconds } = second;
    const times = (of: readonly Written[]): number[] => of.map(([, , took]) => took);
    const alone = times([...before, ...after]);
    const together = times(beside.filter(([, at]) => at >= startedAt && at <= endedAt));
    const elapsed = (endedAt - startedAt) / 1000;
    return [
      {
        name: 'rewrap of 1,000,000 keys beside load',
        value: (elapsed / rewrapped) * (KEYS / 60),
        unit: 'minutes',
        goal: { atMost: 10 },
      },
      {
        name: 'append meanwhile, p99',
        value: quantile(together, 0.99) / quantile(alone, 0.99),
        unit: '× without',
        goal: { atMost: 1.2 },
      },
      { name: '  p99 meanwhile', value: quantile(together, 0.99), unit: 'ms' },
      { name: '  p99 without', value: quantile(alone, 0.99), unit: 'ms' },
      { name: '  p50 meanwhile', value: median(together), unit: 'ms' },
      { name: '  p50 without', value: median(alone), unit: 'ms' },
      { name: '  keys', value: rewrapped / elapsed, unit: '/s' },
      { name: '  wrapped before it was ended, and not again', value: first.rewrapped, unit: 'keys' },
      { name: '  cores in use meanwhile', value: busyBeside, unit: 'cores' },
      { name: '  cores in use without', value: busyAlone, unit: 'cores' },
      { name: '  processor of the janitor', value: cpuSeconds / elapsed, unit: 'cores' },
    ];
  } finally {
    await database.drop();
  }
}

export const rewrap: Benchmark = {
  name: 'rewrap',
  what: `a million keys of persons wrapped anew beside ${RATE} appends a second`,
  minutes: 6,
  run,
};
