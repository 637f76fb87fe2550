import type pg from 'pg';
import type { Service } from '../../functions/sample/api/service.ts';
import { announceErased } from '../../functions/erasure.ts';
import { classes } from '../../functions/sample/catalogue/classes.ts';
import { definition } from '../../functions/sample/catalogue/definition.ts';
import { erasable } from '../../functions/sample/catalogue/erasable.ts';
import type { Queryable } from '../../shared/database/index.ts';
import { catalogueRows } from '../../shared/events/index.ts';
import {
  createErasure,
  createIndexKeys,
  createKeyring,
  type ErasureOptions,
  type Keyring,
  type Kms,
  postgresIndexVault,
  postgresVault,
} from '../../shared/sealing/index.ts';
import { memoryErasureLog } from './erasure-log.ts';
import { fakeKms } from './keyring.ts';

/** What a deployment does for the sample, beside migrations and logins. */
export async function installSample(owner: Queryable): Promise<void> {
  await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(catalogueRows(definition))]);
  const all = `{${Object.keys(classes).join(',')}}`;
  await owner.query(`select vault.set_access('sealed_api', '{}', $1)`, [all]);
  await owner.query(`select vault.set_index_access('sealed_api', '{"customer-email": "contact"}')`);
  await owner.query(`select vault.set_access('sealed_ledger', '{contact}', '{}')`);
  await owner.query(`select vault.set_access('sealed_notifications', '{contact}', '{}')`);
}

/** One KMS for all keyrings of a test file. */
export const sampleKms = fakeKms();

/** The keyring of one process, on the vault of the test's database. */
export function sampleKeyring(pool: pg.Pool, kms: Kms = sampleKms): Keyring {
  return createKeyring({ name: 'sample', vault: postgresVault(pool), kms });
}

/** The log of erasures of a test file's database. */
export const sampleErasureLog = memoryErasureLog();

/** What erases customers, on the vault of the test's database. */
export function sampleErasure(pool: pg.Pool, more: Partial<ErasureOptions> = {}) {
  return createErasure({
    name: 'sample',
    pool,
    kms: sampleKms,
    log: sampleErasureLog,
    classes,
    erasable,
    announce: announceErased,
    ...more,
  });
}

/** What the API works with beside its keyring. */
export function sampleKeys(pool: pg.Pool): Pick<Service, 'indexKeys' | 'erasure'> {
  const indexKeys = createIndexKeys({ name: 'sample', vault: postgresIndexVault(pool), kms: sampleKms });
  return { indexKeys, erasure: sampleErasure(pool) };
}

/** Each value stands nowhere else, so that it can be searched for. */
export const PERSONAL = {
  name: 'Ada Kanarya-4711',
  email: 'ada.kanarya-4711@lovelace.example',
  address: 'Kanarya Sokak 4711\nİstanbul',
  taxId: '4711081547',
  iban: 'TR330006100519786457844711',
  note: 'Kanarya-4711 pays in person',
  description: 'Çay bardağı ☕ of Kanarya-4711',
} as const;

/** All of them, and what they become in JSON, base64 and hexadecimal digits. */
export function spellings(values: readonly string[] = Object.values(PERSONAL)): string[] {
  return values.flatMap((value) => {
    const bytes = Buffer.from(value);
    return [value, JSON.stringify(value).slice(1, -1), bytes.toString('base64').slice(0, -4), bytes.toString('hex')];
  });
}

/** A body of `POST /invoices`; 30.00 euros unless the price says otherwise. */
export function invoiceOrder(customerId: string, unitPriceMinor = 1250) {
  const { note, description, ...customer } = PERSONAL;
  return {
    customerId,
    customer,
    currency: 'EUR',
    lines: [
      { description, quantity: 2, unitPriceMinor },
      { description: 'Shipping', quantity: 1, unitPriceMinor: 500 },
    ],
    note,
    dueOn: '2026-12-31',
  };
}
