import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { transaction } from '../../../shared/database/index.ts';
import { buildEnvelope } from '../../../shared/events/index.ts';
import { type ConsumedEvent, eventConsumer } from '../../../shared/inbox/index.ts';
import {
  createKeyring,
  defineErasable,
  erasedPersonsHandler,
  isErased,
  postgresVault,
  renewSubjectKey,
} from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { catalogue, erasingShop } from '../../support/erasures.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';
import { ageRetired, rotate, rotationOn } from '../../support/rotation.ts';
import { fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
const shop = await erasingShop(database);
const { owner, log, kms } = shop;
const customer = (id: string) => ({ kind: 'customer', id });
const rotation = rotationOn(database.pool('sealed_rotator'), { kms });
type Named = ConsumedEvent<typeof catalogue, 'customer.named'>;

beforeAll(async () => {
  await owner.query(`select vault.set_access('sealed_rotator', '{}', '{contact,tax}')`);
  await owner.query(`select vault.set_access('sealed_opener', '{contact,tax}', '{}')`);
  await owner.query(
    `create table shop.copy (id text primary key, customer_id text not null, name text, size integer);
     grant usage on schema shop to inbox_consumer;
     grant select, insert, update on shop.copy to inbox_consumer;`,
  );
});

describe('a consumer', () => {
  const seen: Named['data'][] = [];
  const handler = eventConsumer({
    name: 'copies',
    catalogue,
    pool: database.pool('sealed_opener', 2),
    log: recordingLog(),
    metrics: recordingMetrics(),
    keyring: createKeyring({
      name: 'test',
      vault: postgresVault(database.pool('sealed_opener', 1)),
      kms,
      erasures: log,
    }),
    opens: ['contact'],
    mode: 'any',
    handlers: {
      'customer.named': async ({ id, data }, { tx }) => {
        seen.push(data);
        const name = isErased(data.name) ? null : data.name;
        await tx.query('insert into shop.copy values ($1, $2, $3, $4)', [id, data.customerId, name, data.size]);
      },
      'person.erased': erasedPersonsHandler(
        defineErasable([
          {
            table: 'shop.copy',
            key: 'id',
            kind: 'customer',
            subject: 'customer_id',
            class: 'contact',
            columns: ['name'],
          },
        ]),
      ),
    },
  });

  const write = async (id: string, data: object = { name: `Ada ${id}` }): Promise<void> => {
    const friend = (data as { friend?: { id: string } }).friend;
    const subjects = [customer(id), ...(friend === undefined ? [] : [customer(friend.id)])];
    const writer = await shop.outbox().prepare({ subjects });
    await transaction(database.pool('sealed_sealer', 1), (tx) =>
      writer.append(tx, [
        { type: 'customer.named', aggregate: { type: 'customer', id }, data: { customerId: id, size: 3, ...data } },
      ]),
    );
  };
  /** What the relay sends of a person, as it stands in the outbox: all of a type, oldest first. */
  const messages = async (id: string, type: string) => {
    const { rows } = await owner.query(
      `select e.*, e.data::text as text, to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
         from outbox.event e where e.aggregate_id = $1 and e.type = $2 order by e.sequence`,
      [id, type],
    );
    return rows.map((row) =>
      fifoRecord(
        id,
        buildEnvelope({
          id: row.id,
          source: '/test',
          type,
          schemaVersion: row.schema_version,
          aggregateType: row.aggregate_type,
          aggregateId: id,
          sequence: BigInt(row.sequence),
          occurredAt: row.at,
          data: row.text,
          metadata: null,
        }),
      ),
    );
  };
  const copies = async (id: string): Promise<(string | null)[]> => {
    const { rows } = await owner.query('select name from shop.copy where customer_id = $1 order by name', [id]);
    return rows.map(({ name }) => name as string | null);
  };

  it('clears its copies when it hears of the erasure, and those that were written after, when it hears once more', async () => {
    const [id, other] = [randomUUID(), randomUUID()];
    for (const person of [id, other]) {
      await write(person);
      await invoke(handler, await messages(person, 'customer.named'));
    }
    expect(await copies(id)).toEqual([`Ada ${id}`]);
    await shop.erasure().erase({ subject: customer(id) });
    expect(await invoke(handler, await messages(id, 'person.erased'))).toEqual([]);
    expect(await copies(id)).toEqual([null]);
    // An invocation that had opened the name before, and commits only now.
    await owner.query('insert into shop.copy values ($1, $2, $3, 3)', [randomUUID(), id, `Ada ${id}`]);
    await shop.letPass('21 minutes');
    await shop.runJanitor();
    const told = await messages(id, 'person.erased');
    expect(told).toHaveLength(2);
    expect(await invoke(handler, told)).toEqual([]);
    expect(await copies(id)).toEqual([null, null]);
    expect(await copies(other)).toEqual([`Ada ${other}`]);
  });

  it('case 49: opens the other of two persons in one event when one of them is erased', async () => {
    const [gone, stays] = [randomUUID(), randomUUID()];
    await write(gone, { name: 'Ada', friend: { id: stays, name: 'Grace' } });
    await shop.erasure().erase({ subject: customer(gone) });
    seen.length = 0;
    await invoke(handler, await messages(gone, 'customer.named'));
    expect(seen).toEqual([
      { customerId: gone, size: 3, name: expect.anything(), friend: { id: stays, name: 'Grace' } },
    ]);
    expect(isErased(seen[0]?.name)).toBe(true);
  });

  it('like case 49: gets the other one also of an event that is written after', async () => {
    const [gone, stays] = [randomUUID(), randomUUID()];
    await write(gone);
    await shop.erasure().erase({ subject: customer(gone) });
    await write(stays, { name: 'Grace', note: 'rings twice', friend: { id: gone, name: 'Ada' } });
    await write(gone, { name: 'Ada', note: 'rings twice', friend: { id: stays, name: 'Grace' } });
    seen.length = 0;
    await invoke(handler, await messages(stays, 'customer.named'));
    expect(seen[0]).toMatchObject({ name: 'Grace', note: 'rings twice', friend: { id: gone } });
    expect(isErased(seen[0]?.friend?.name)).toBe(true);
    seen.length = 0;
    await invoke(handler, (await messages(gone, 'customer.named')).slice(1));
    expect(seen[0]).toMatchObject({ note: '(erased)', friend: { id: stays, name: 'Grace' } });
  });
});

describe('erasing', () => {
  it('like case 64: works with a pool of one', async () => {
    const { id } = await shop.customer();
    const erasure = shop.erasure({ pool: database.pool('sealed_eraser', 1) });
    expect((await erasure.erase({ subject: customer(id) })).outcome).toBe('done');
  });

  it('reaches a version of a key that is added in between; what must be kept is kept in both', async () => {
    const { id, keys } = await shop.customer();
    log.beforeCreate = async (name) => {
      if (!name.startsWith('entry/')) return;
      log.beforeCreate = () => Promise.resolve();
      for (const className of ['contact', 'tax'])
        expect(await renewSubjectKey(rotation, className, customer(id))).toBe(2);
    };
    const { classes } = await shop.erasure().erase({ subject: customer(id) });
    expect(classes.map(({ state }) => state)).toEqual(['erased', 'restricted']);
    const audit = shop.keyring('sealed_auditor', true);
    const text = JSON.stringify(log.entries());
    for (const version of [1, 2]) {
      expect(await shop.opened({ ...keys.contact, version })).toBe('erased');
      expect(await shop.opened({ ...keys.tax, version })).toBe('erased');
      expect(await shop.opened({ ...keys.tax, version }, undefined, audit)).toBe('opens');
      for (const { class: className, keyId } of [keys.contact, keys.tax]) {
        expect(text).toContain(`${className}.${keyId}.${version}`);
      }
    }
    expect(await renewSubjectKey(rotation, 'tax', customer(id))).toBe('erased');
  });

  it('is not undone by rotation, which keeps what must be kept', async () => {
    const { id, keys } = await shop.customer();
    const other = await shop.customer();
    await shop.erasure().erase({ subject: customer(id) });
    expect(await rotate(rotation, { now: ['contact', 'tax'] })).toMatchObject({ failed: false });
    await ageRetired(owner);
    expect(await rotate(rotation)).toMatchObject({ failed: false, destroyed: ['contact 1', 'tax 1'] });
    expect(await shop.opened(keys.contact)).toBe('erased');
    expect(await shop.opened(keys.tax)).toBe('erased');
    expect(await shop.opened(other.keys.contact)).toBe('opens');
    expect(await shop.opened(keys.tax, undefined, shop.keyring('sealed_auditor', true))).toBe('opens');
  });
});
