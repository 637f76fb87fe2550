import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { catalogueRows, defineCatalogue } from '../../shared/events/index.ts';
import { createOutbox, type Outbox, type Writer } from '../../shared/outbox/index.ts';
import { createKeyring, type Keyring, postgresVault, type Vault } from '../../shared/sealing/index.ts';
import { compileCatalogue } from '../../test/support/compile-catalogue.ts';
import { countedPool } from '../harness/counted-pool.ts';
import { type LocalKms, localKms } from '../harness/local-kms.ts';
import { cpuMeter } from '../harness/server-cpu.ts';
import type { BenchDatabase, BenchServer } from '../harness/server.ts';
import { BUSINESS_TABLES, businessTransaction } from '../relay/append.ts';

const text = { type: 'string' } as const;
const field = (marked: boolean) => (marked ? ({ ...text, 'x-gdpr-sensitive': true } as const) : text);
const schema = (marked: boolean) =>
  ({
    type: 'object',
    additionalProperties: false,
    required: ['personId', 'name', 'email', 'address', 'phone', 'note'],
    properties: {
      personId: text,
      name: field(marked),
      email: field(marked),
      address: field(marked),
      phone: field(marked),
      note: field(marked),
    },
  }) as const;
const event = (marked: boolean) =>
  ({
    aggregate: 'person',
    whenParked: 'block',
    destinations: ['queue'],
    sensitive: { class: 'contact', subject: { kind: 'customer', id: '/personId' } },
    versions: { 1: schema(marked) },
  }) as const;

/** Two types with the same five fields: marked in one, clear in the other. */
const definition = defineCatalogue({
  source: '/bench',
  destinations: { queue: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
  events: { 'person.sealed': event(true), 'person.clear': event(false) },
});
const catalogue = compileCatalogue(definition);

export type PersonEvent = 'person.sealed' | 'person.clear';
export type PersonOutbox = Outbox<typeof definition>;

export const person = (n: number): { kind: string; id: string } => ({ kind: 'customer', id: `person-${n}` });

export interface CountedVault extends Vault {
  /** Round trips. */
  reads: number;
}

export function countedVault(pool: pg.Pool): CountedVault {
  const vault = postgresVault(pool);
  const counted: CountedVault = {
    ...vault,
    reads: 0,
    read: (...asked) => {
      counted.reads += 1;
      return vault.read(...asked);
    },
  };
  return counted;
}

export interface PersonBench {
  readonly database: BenchDatabase;
  readonly pool: pg.Pool;
  readonly kms: LocalKms;
  /** From now on: what this process and the server behind its connections have had of cores. Seconds. */
  cpuMeter(): () => number;
  /** As a process of its own would have it: with nothing in memory. */
  process(): { readonly outbox: PersonOutbox; readonly keyring: Keyring; readonly vault: CountedVault };
  end(): Promise<void>;
}

/** A database with the catalogue and the business tables, and a login that seals. */
export async function personBench(server: BenchServer): Promise<PersonBench> {
  const database = await server.database();
  const owner = await database.connect('sealed_migrator');
  await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(catalogueRows(definition))]);
  await owner.query(`${BUSINESS_TABLES}; grant select, insert, update on customer, business_invoice to sealed_sealer`);
  await owner.query(`select vault.set_access('sealed_sealer', '{}', '{contact,tax}')`);
  const { pool, serverProcesses } = countedPool({
    ...database.connection('sealed_sealer'),
    max: 8,
    idleTimeoutMillis: 0,
  });
  const kms = localKms();
  return {
    database,
    pool,
    kms,
    cpuMeter() {
      const before = process.cpuUsage();
      const serverCpu = cpuMeter(serverProcesses);
      return () => {
        const { user, system } = process.cpuUsage(before);
        return (user + system) / 1e6 + serverCpu();
      };
    },
    process() {
      const vault = countedVault(pool);
      const keyring = createKeyring({ name: 'bench', vault, kms });
      return { outbox: createOutbox({ catalogue, keyring }), keyring, vault };
    },
    async end() {
      await pool.end();
      await database.drop();
    },
  };
}

/** Makes keys of class `contact` for so many persons. */
export async function createPersons(keyring: Keyring, count: number): Promise<void> {
  for (let first = 0; first < count; first += 1_000) {
    const persons = Array.from({ length: Math.min(1_000, count - first) }, (_, index) => person(first + index));
    await keyring.keysToSeal(persons.map((subject) => ({ class: 'contact', subject })));
  }
}

const FIELDS = {
  name: 'Ada Lovelace of Marylebone',
  email: 'ada.lovelace@example.com',
  address: '12 St James’s Square, London SW1Y',
  phone: '+44 20 7946 0000',
  note: 'Prefers letters to telephone calls.',
};

/** An invoice, its customer and one event about the person, in one transaction. */
export async function writePerson(
  writer: Writer<typeof definition>,
  client: pg.Client | pg.PoolClient,
  type: PersonEvent,
  n: number,
  fields: typeof FIELDS = FIELDS,
): Promise<void> {
  await businessTransaction(client, () =>
    writer.append(client, [
      { type, aggregate: { type: 'person', id: randomUUID() }, data: { personId: person(n).id, ...fields } },
    ]),
  );
}
