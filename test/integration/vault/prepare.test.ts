import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { beforeAll, describe, expect, expectTypeOf, it } from 'vitest';
import { type Result, transaction } from '../../../shared/database/index.ts';
import { catalogueRows, defineCatalogue } from '../../../shared/events/index.ts';
import { createOutbox, type OutboxEvent, type Writer } from '../../../shared/outbox/index.ts';
import { createKeyring, isErased, openData, postgresVault, sealedWith } from '../../../shared/sealing/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { movedClock } from '../../support/moved-clock.ts';

const text = { type: 'string' } as const;
const definition = defineCatalogue({
  source: '/test',
  destinations: { queue: { kind: 'sqs-fifo', groupId: 'aggregate-id', maxBytes: 2_048 } },
  events: {
    'order.placed': {
      aggregate: 'order',
      whenParked: 'block',
      destinations: ['queue'],
      sensitive: { class: 'contact', subject: { kind: 'customer', id: '/customerId' } },
      versions: {
        1: {
          type: 'object',
          additionalProperties: false,
          required: ['customerId'],
          properties: {
            customerId: text,
            payerId: text,
            name: { ...text, 'x-gdpr-sensitive': true },
            note: { ...text, 'x-gdpr-sensitive': { erasedValue: '(erased)' } },
            gift: {
              type: 'object',
              additionalProperties: false,
              required: ['friendId'],
              properties: {
                friendId: text,
                name: { ...text, 'x-gdpr-sensitive': { subject: { kind: 'customer', id: '1/friendId' } } },
              },
            },
          },
        },
      },
    },
    'order.taxed': {
      aggregate: 'order',
      whenParked: 'block',
      destinations: ['queue'],
      sensitive: { class: 'tax', subject: { kind: 'customer', id: '/customerId' } },
      versions: {
        1: {
          type: 'object',
          additionalProperties: false,
          required: ['customerId'],
          properties: { customerId: text, taxId: { ...text, 'x-gdpr-sensitive': true } },
        },
      },
    },
    'order.closed': {
      aggregate: 'order',
      whenParked: 'block',
      destinations: ['queue'],
      versions: { 1: { type: 'object', additionalProperties: false } },
    },
  },
});
const catalogue = compileCatalogue(definition);
const { plan } = catalogue.sealed.get('order.placed/1')!;

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const kms = fakeKms();
const CANARY = 'canary-7be1';

beforeAll(async () => {
  await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(catalogueRows(definition))]);
  await owner.query(`select vault.set_access('sealed_sealer', '{}', '{contact,tax}')`);
});

const outboxOn = (pool: pg.Pool, clock = movedClock()) =>
  createOutbox({ catalogue, keyring: createKeyring({ name: 'test', vault: postgresVault(pool), kms, clock }) });
const customer = (id: string) => ({ kind: 'customer', id });
const placed = (customerId: string, data: object = { name: CANARY }): OutboxEvent<typeof definition> => ({
  type: 'order.placed',
  aggregate: { type: 'order', id: `O-${customerId}` },
  data: { customerId, ...data },
});

/** The data of an event as it is stored, and as whoever has all keys opens it. */
async function stored(id: string): Promise<{ text: string; opened: Record<string, unknown> }> {
  const { rows } = await owner.query(`select data::text as text, aggregate_id from outbox.event where id = $1`, [id]);
  const data: unknown = JSON.parse(rows[0].text);
  const keyring = createKeyring({ name: 'test', vault: postgresVault(database.pool('sealed_sealer', 1)), kms });
  const keys = await keyring.keysToOpen(sealedWith(data, plan));
  const opened = openData(data, plan, keys, {
    in: 'event',
    eventType: 'order.placed',
    aggregateType: 'order',
    aggregateId: rows[0].aggregate_id,
    eventId: id,
  });
  return { text: rows[0].text, opened: opened as Record<string, unknown> };
}

const writes = async (pool: pg.Pool, writer: Writer<typeof definition>, event: OutboxEvent<typeof definition>) => {
  const [appended] = await transaction(pool, (tx) => writer.append(tx, [event]));
  return appended!.id;
};

describe('a writer whose keys were prepared', () => {
  it('appends data of which nothing marked is stored in clear, and which opens again', async () => {
    const pool = database.pool('sealed_sealer');
    const writer = await outboxOn(pool).prepare({ subjects: [customer('C-1')] });
    const { text: json, opened } = await stored(await writes(pool, writer, placed('C-1')));
    expect(json).not.toContain(CANARY);
    expect(opened).toEqual({ customerId: 'C-1', name: CANARY });
  });

  it('case 64: works with a pool of one and a new person', async () => {
    const pool = database.pool('sealed_sealer', 1);
    const outbox = outboxOn(pool);
    const id = randomUUID();
    const writer = await outbox.prepare({ subjects: [customer(id)] });
    expect((await stored(await writes(pool, writer, placed(id)))).opened).toMatchObject({ name: CANARY });
  });

  it('like case 64: four at once work with a pool of four, each with a new person, each also in the first of its process', async () => {
    const pool = database.pool('sealed_sealer', 4);
    const ids = await Promise.all(
      Array.from({ length: 4 }, async (_, index) => {
        const outbox = outboxOn(pool);
        const writer = await outbox.prepare({ subjects: [customer(`four-${index}`)] });
        return writes(pool, writer, placed(`four-${index}`));
      }),
    );
    for (const id of ids) expect((await stored(id)).opened).toMatchObject({ name: CANARY });
  });

  it('case 45: the transaction rolls back after a key was made: the next event is sealed with it and opens', async () => {
    const pool = database.pool('sealed_sealer');
    const outbox = outboxOn(pool);
    const writer = await outbox.prepare({ subjects: [customer('C-rolled-back')] });
    const rolledBack = transaction(pool, async (tx) => {
      await writer.append(tx, [placed('C-rolled-back')]);
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    const id = await writes(pool, writer, placed('C-rolled-back'));
    expect((await stored(id)).opened).toMatchObject({ name: CANARY });
  });

  it('like case 45: a savepoint that rolls back takes no key with it', async () => {
    const pool = database.pool('sealed_sealer');
    const writer = await outboxOn(pool).prepare({ subjects: [customer('C-savepoint')] });
    const id = await transaction(pool, async (tx) => {
      await tx.query('savepoint s');
      await writer.append(tx, [placed('C-savepoint')]);
      await tx.query('rollback to s');
      const [appended] = await writer.append(tx, [placed('C-savepoint')]);
      return appended!.id;
    });
    expect((await stored(id)).opened).toMatchObject({ name: CANARY });
  });

  it('asks neither KMS nor the vault inside the transaction', async () => {
    const pool = database.pool('sealed_sealer');
    const statements: string[] = [];
    const writer = await outboxOn(pool).prepare({ subjects: [customer('C-1')] });
    kms.calls.length = 0;
    await transaction(pool, async (tx) => {
      const query = async (sql: string, values: readonly unknown[] = []): Promise<Result> => {
        statements.push(sql);
        return tx.query(sql, [...values]);
      };
      await writer.append({ query }, [placed('C-1')]);
    });
    expect(statements).toEqual([expect.stringContaining('outbox.append')]);
    expect(kms.calls).toEqual([]);
  });

  it('case 49: of two persons in one event, of whom one is erased, the other can be read', async () => {
    const pool = database.pool('sealed_sealer');
    const writer = await outboxOn(pool).prepare({ subjects: [customer('C-giver'), customer('C-friend')] });
    const data = { name: 'Ada', gift: { friendId: 'C-friend', name: 'Grace' } };
    const id = await writes(pool, writer, placed('C-giver', data));
    await owner.query(`update vault.subject_key set wrapped = null where subject_id = 'C-giver'`);
    const { opened } = await stored(id);
    expect(isErased(opened['name'])).toBe(true);
    expect(opened['gift']).toEqual({ friendId: 'C-friend', name: 'Grace' });
  });

  it('like case 49: later events about the erased one carry the mark, about the other they do not', async () => {
    const pool = database.pool('sealed_sealer');
    const subjects = [customer('C-gone'), customer('C-stays')];
    await outboxOn(pool).prepare({ subjects });
    await owner.query(`update vault.subject_key set wrapped = null where subject_id = 'C-gone'`);
    const writer = await outboxOn(pool).prepare({ subjects });
    const data = { name: 'Ada', note: 'n', gift: { friendId: 'C-stays', name: 'Grace' } };
    const { text: json, opened } = await stored(await writes(pool, writer, placed('C-gone', data)));
    expect(JSON.parse(json)).toMatchObject({ name: 'erased.1', note: 'erased.1' });
    expect(opened).toMatchObject({ note: '(erased)', gift: { name: 'Grace' } });
  });

  it('like case 13: refuses a message that is over the limit only after sealing, before the database sees it', async () => {
    const pool = database.pool('sealed_sealer');
    const writer = await outboxOn(pool).prepare({ subjects: [customer('C-1')] });
    const fits = { name: 'x'.repeat(900) };
    await transaction(pool, async (tx) => {
      await writer.append(tx, [placed('C-1', fits)]);
      await expect(writer.append(tx, [placed('C-1', { ...fits, note: 'x'.repeat(400) })])).rejects.toMatchObject({
        code: 'EVENT_TOO_LARGE',
      });
      // A refusal of the database would have ended the transaction.
      await tx.query('select');
    });
  });
});

describe('keys that were not prepared', () => {
  const refusal = async (
    prepared: readonly { kind: string; id: string }[],
    event: OutboxEvent<typeof definition>,
    types?: readonly (keyof typeof definition.events)[],
  ): Promise<unknown> => {
    const pool = database.pool('sealed_sealer', 1);
    const writer = await outboxOn(pool).prepare({ subjects: prepared, ...(types && { types }) });
    return writes(pool, writer, event).then(
      () => 'appended',
      (error: unknown) => (error as { code?: string }).code,
    );
  };

  it('are refused: of another person, another kind, another class, or nobody', async () => {
    expect(await refusal([customer('C-2')], placed('C-1'))).toBe('KEYS_NOT_PREPARED');
    expect(await refusal([{ kind: 'supplier', id: 'C-1' }], placed('C-1'))).toBe('KEYS_NOT_PREPARED');
    expect(await refusal([], placed('C-1'))).toBe('KEYS_NOT_PREPARED');
    expect(await refusal([customer('C-1')], placed('C-1'), ['order.taxed'])).toBe('KEYS_NOT_PREPARED');
    expect(await refusal([customer('C-1')], placed('C-1', { gift: { friendId: 'C-2', name: 'x' } }))).toBe(
      'KEYS_NOT_PREPARED',
    );
  });

  it('are not missed where nothing marked is there', async () => {
    expect(await refusal([], placed('C-1', {}))).toBe('appended');
    const closed = { type: 'order.closed', aggregate: { type: 'order', id: 'O-1' }, data: {} } as const;
    expect(await refusal([], closed)).toBe('appended');
  });

  it('are refused by the outbox itself, and by a writer that is kept for five minutes', async () => {
    const pool = database.pool('sealed_sealer');
    const clock = movedClock();
    const outbox = outboxOn(pool, clock);
    await expect(writes(pool, outbox, placed('C-1'))).rejects.toMatchObject({ code: 'KEYS_NOT_PREPARED' });
    const writer = await outbox.prepare({ subjects: [customer('C-1')] });
    await clock.advance(5 * 60_000);
    await expect(writes(pool, writer, placed('C-1'))).rejects.toMatchObject({ code: 'KEYS_NOT_PREPARED' });
  });

  it('are said to be missing where the outbox has no keyring, and only where the catalogue has marks for the types', async () => {
    const outbox = createOutbox({ catalogue });
    await expect(outbox.prepare({ subjects: [customer('C-1')] })).rejects.toMatchObject({ code: 'KEYS_NOT_PREPARED' });
    const pool = database.pool('sealed_sealer');
    const writer = await outbox.prepare({ subjects: [customer('C-1')], types: ['order.closed'] });
    await writes(pool, writer, { type: 'order.closed', aggregate: { type: 'order', id: 'O-2' }, data: {} });
  });
});

describe('prepare', () => {
  it('makes keys of the classes that the types use, and of no other', async () => {
    const outbox = outboxOn(database.pool('sealed_sealer'));
    const classes = async (id: string): Promise<string[]> => {
      const { rows } = await owner.query('select class from vault.subject_key where subject_id = $1 order by 1', [id]);
      return rows.map((row) => row.class as string);
    };
    await outbox.prepare({ subjects: [customer('C-some')], types: ['order.placed', 'order.closed'] });
    expect(await classes('C-some')).toEqual(['contact']);
    await outbox.prepare({ subjects: [customer('C-some')] });
    expect(await classes('C-some')).toEqual(['contact', 'tax']);
    await outbox.prepare({ subjects: [{ kind: 'supplier', id: 'S-some' }] });
    expect(await classes('S-some')).toEqual([]);
  });

  it('refuses a person without a sound id', async () => {
    const outbox = outboxOn(database.pool('sealed_sealer'));
    for (const id of ['', 'x'.repeat(201), '\uD800', 'a\u0000b', undefined as unknown as string]) {
      await expect(outbox.prepare({ subjects: [customer('C-1'), customer(id)] })).rejects.toMatchObject({
        code: 'SEALING_REFUSED',
        message: expect.stringContaining('subjects[1]'),
      });
    }
  });

  it('rejects with what keeps keys from being loaded, before any transaction', async () => {
    const failing = fakeKms();
    failing.failure = 'SEALING_THROTTLED';
    const vault = postgresVault(database.pool('sealed_sealer'));
    const outbox = createOutbox({ catalogue, keyring: createKeyring({ name: 'test', vault, kms: failing }) });
    await expect(outbox.prepare({ subjects: [customer('C-new')] })).rejects.toMatchObject({
      code: 'SEALING_THROTTLED',
    });
  });

  it('knows the types of its catalogue', () => {
    const outbox = createOutbox({ catalogue });
    expectTypeOf<Awaited<ReturnType<typeof outbox.prepare>>>().toEqualTypeOf<Writer<typeof definition>>();
    // @ts-expect-error no such type
    void (() => outbox.prepare({ subjects: [], types: ['order.sent'] }));
  });
});
