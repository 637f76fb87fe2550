import { v7 } from 'uuid';
import { expect, it } from 'vitest';
import { customerEmail } from '../../../functions/sample/catalogue/classes.ts';
import { CUSTOMER } from '../../../functions/sample/api/tables.ts';
import { createIndexKeys, postgresIndexVault } from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { ageIndexKeys, indexKeysOf, killedAfter, runIndexesOn } from '../../support/index-runs.ts';
import { movedClock } from '../../support/moved-clock.ts';
import { installSample, invoiceOrder, sampleKms } from '../../support/sample.ts';
import { type Api, sampleApi } from './api-harness.ts';

const database = await testDatabase();
const owner = await database.client('sealed_migrator');
await installSample(owner);
await owner.query(`select vault.set_access('sealed_keeper', '{}', '{contact}');
                   select vault.set_index_access('sealed_keeper', '{"customer-email": "contact"}')`);
const pool = database.pool('sealed_api', 1);
const keeper = database.pool('sealed_keeper', 1);
const clock = movedClock();

const EMAIL = 'Çağla.Işık@rotation.example';
const process = (): Api => {
  const vault = postgresIndexVault(pool);
  return sampleApi(pool, { indexKeys: createIndexKeys({ name: 'sample', vault, kms: sampleKms, clock }) });
};

async function issued(api: Api): Promise<string> {
  const order = invoiceOrder(v7());
  const reply = await api.post('/invoices', { ...order, customer: { ...order.customer, email: EMAIL } });
  expect(reply.status).toBe(201);
  return String(reply.body['id']);
}

async function found(api: Api): Promise<string[]> {
  const reply = await api.post('/invoices/search', { email: EMAIL.toLowerCase(), limit: 100 });
  expect(reply.status).toBe(200);
  return (reply.body['invoices'] as { id: string }[]).map(({ id }) => id).toSorted();
}

it('case 50: a search finds every invoice at every step of a rotation that is killed between any two statements', async () => {
  const old = process();
  const ids = [await issued(old), await issued(old)];
  await old.post('/invoices/search', { email: EMAIL });
  const seen = new Set<string>();
  const look = async (): Promise<void> => {
    seen.add(await indexKeysOf(owner, 'customer-email'));
    // One that knows what stood before, as long as it may, and one that starts now.
    for (const api of [old, process()]) expect(await found(api)).toEqual(ids.toSorted());
  };
  const columns = [{ ...CUSTOMER, primaryKey: 'id', sealed: 'email', index: 'email_index' }];
  const run = (statements: number) =>
    runIndexesOn(killedAfter(keeper, statements), {
      name: 'sample',
      kms: sampleKms,
      indexes: [{ index: customerEmail, columns }],
      page: 2,
      keySeconds: 3600,
    });

  await ageIndexKeys(owner, '1 hour');
  for (let statements = 1; (await indexKeysOf(owner, 'customer-email')) !== '2 active'; statements += 1) {
    expect(statements).toBeLessThan(60);
    await run(statements);
    await look();
    if (statements % 2 !== 0) continue;
    ids.push(await issued(statements % 4 === 0 ? old : process()));
    await look();
    if (statements % 4 !== 0) continue;
    await ageIndexKeys(owner);
    await clock.advance(10 * 60_000);
  }
  expect([...seen]).toEqual(['1 active', '1 active, 2 next', '1 retired, 2 active', '2 active']);
  await look();
  expect(await run(100)).toMatchObject({ steps: [], written: 0, failed: false });
});
