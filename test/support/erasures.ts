import { randomUUID } from 'node:crypto';
import { catalogueRows, defineCatalogue } from '../../shared/events/index.ts';
import { createOutbox } from '../../shared/outbox/index.ts';
import {
  type Announce,
  createErasure,
  createKeyring,
  defineClasses,
  defineErasable,
  type ErasureOptions,
  erasureWalk,
  type KeyName,
  openValue,
  personErased,
  personErasedEvent,
  postgresVault,
  type RowContext,
  sealValue,
} from '../../shared/sealing/index.ts';
import { compileCatalogue } from './compile-catalogue.ts';
import type { TestDatabase } from './database.ts';
import { memoryErasureLog } from './erasure-log.ts';
import { fakeKms } from './keyring.ts';
import { recordingMetrics } from './recorders.ts';

const text = { type: 'string' } as const;

const definition = defineCatalogue({
  source: '/test',
  destinations: {
    queue: { kind: 'sqs-fifo', groupId: 'aggregate-id' },
    persons: { kind: 'sqs-fifo', groupId: 'aggregate-id' },
  },
  events: {
    'customer.named': {
      aggregate: 'customer',
      whenParked: 'block',
      destinations: ['queue'],
      sensitive: { class: 'contact', subject: { kind: 'customer', id: '/customerId' } },
      versions: {
        1: {
          type: 'object',
          additionalProperties: false,
          required: ['customerId', 'size'],
          properties: {
            customerId: text,
            size: { type: 'integer' },
            friendId: text,
            name: { ...text, 'x-gdpr-sensitive': true },
            taxId: { ...text, 'x-gdpr-sensitive': { class: 'tax' } },
            note: { ...text, 'x-gdpr-sensitive': { erasedValue: '(erased)' } },
            friend: {
              type: 'object',
              additionalProperties: false,
              required: ['id'],
              properties: {
                id: text,
                name: { ...text, 'x-gdpr-sensitive': { subject: { kind: 'customer', id: '1/id' } } },
              },
            },
          },
        },
      },
    },
    'person.erased': personErasedEvent('persons'),
  },
});
export const catalogue = compileCatalogue(definition);

const classes = defineClasses({ contact: { erase: 'onRequest' }, tax: { erase: { after: 3653 } } });
export const erasable = defineErasable([
  {
    table: 'shop.customer',
    key: 'id',
    kind: 'customer',
    subject: 'id',
    class: 'contact',
    columns: ['name', 'name_index'],
  },
  { table: 'shop.customer', key: 'id', kind: 'customer', subject: 'id', class: 'tax', columns: ['tax_id'] },
]);

/** A service whose customers' names and tax ids are sealed in a table, with what erases them. */
export async function erasingShop(database: TestDatabase) {
  const owner = database.pool('sealed_migrator');
  await owner.query(
    `create schema shop;
     create table shop.customer (id text primary key, size integer not null, name text, name_index text, tax_id text);
     grant usage on schema shop to vault_eraser;
     grant select, update (name, name_index, tax_id) on shop.customer to vault_eraser;`,
  );
  await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(catalogueRows(definition))]);
  await owner.query(`select vault.set_access('sealed_sealer', '{}', '{contact,tax}')`);
  await owner.query(`select vault.set_access('sealed_auditor', '{contact,tax}', '{}')`);

  const log = memoryErasureLog();
  const kms = fakeKms();
  const metrics = recordingMetrics();
  const outbox = createOutbox({ catalogue });
  const announce: Announce = async (tx, erased) => {
    await outbox.append(tx, [personErased(erased)]);
  };
  const options: ErasureOptions = {
    name: 'test',
    pool: database.pool('sealed_eraser'),
    log,
    kms,
    classes,
    erasable,
    announce,
    metrics,
  };
  const pools = { sealed_sealer: database.pool('sealed_sealer'), sealed_auditor: database.pool('sealed_auditor') };
  const keyring = (login: keyof typeof pools = 'sealed_sealer', restricted = false) =>
    createKeyring({ name: 'test', vault: postgresVault(pools[login], { restricted }), kms, erasures: log });
  const place = (id: string, column: string): RowContext => ({
    in: 'row',
    store: 'shop',
    table: 'customer',
    primaryKey: id,
    column,
  });

  return {
    log,
    kms,
    metrics,
    owner,
    options,
    keyring,
    /** Makes keys and puts them where they are asked for; its events are sealed. */
    outbox: () => createOutbox({ catalogue, keyring: keyring() }),
    /** Erasing with something else than usual. */
    erasure: (more: Partial<ErasureOptions> = {}) => createErasure({ ...options, ...more }),
    /** All that a run of the janitor does about erasures. */
    async runJanitor(more: Partial<ErasureOptions> = {}): Promise<Record<string, number>> {
      const walk = erasureWalk({ ...options, metrics, ...more });
      const sums: Record<string, number> = {};
      await walk.begin();
      for (let more = true; more;) {
        const page = await walk.page();
        for (const [name, count] of Object.entries(page.removed)) sums[name] = (sums[name] ?? 0) + count;
        ({ more } = page);
      }
      return sums;
    },
    /** A customer with a name and a tax id, sealed in the table; the names of both keys, by class. */
    async customer(id: string = randomUUID()): Promise<{ id: string; keys: Record<'contact' | 'tax', KeyName> }> {
      const subject = { kind: 'customer', id };
      const keys = await keyring().keysToSeal([
        { class: 'contact', subject },
        { class: 'tax', subject },
      ]);
      const [contact, tax] = [keys('contact', subject), keys('tax', subject)];
      if (typeof contact !== 'object' || typeof tax !== 'object') throw new Error('the customer is erased');
      await owner.query('insert into shop.customer values ($1, 3, $2, $3, $4)', [
        id,
        sealValue(`Ada ${id}`, contact, place(id, 'name')),
        'index',
        sealValue(`T-${id}`, tax, place(id, 'tax_id')),
      ]);
      return { id, keys: { contact, tax } };
    },
    row: async (id: string) => (await owner.query('select * from shop.customer where id = $1', [id])).rows[0],
    /** What a reader that starts now gets: the value, or why not. */
    async opened(
      name: KeyName,
      value?: { id: string; text: string; column: string },
      of = keyring(),
    ): Promise<unknown> {
      const key = (await of.keysToOpen([name]))(name);
      if (typeof key !== 'object') return key ?? 'unknown';
      return value === undefined ? 'opens' : openValue(value.text, key, place(value.id, value.column));
    },
    /** Which `person.erased` were written, oldest first. */
    async told(id: string): Promise<unknown[]> {
      const { rows } = await owner.query(
        `select data::jsonb as data from outbox.event where type = 'person.erased' and aggregate_id = $1 order by sequence`,
        [id],
      );
      return rows.map(({ data }) => [data.pass, data.classes.join(), data.restricted.join()]);
    },
    /** Lets time pass for all that waits in the vault. */
    async letPass(interval: string): Promise<void> {
      await owner.query(
        `update vault.erasure_request set due_at = due_at - interval '${interval}', keep_until = keep_until - interval '${interval}'`,
      );
      await owner.query(`update vault.restricted_key set keep_until = keep_until - interval '${interval}'`);
      await owner.query(`update vault.erasure set announce_again_at = announce_again_at - interval '${interval}'`);
    },
    through: async () => Number((await owner.query('select through from vault.erasure_position')).rows[0].through),
  };
}
