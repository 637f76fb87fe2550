import { describe, expect, it, test } from 'vitest';
import { catalogueRows, type CompiledCatalogue, defineCatalogue } from '../../shared/events/index.ts';
import { createOutbox, EventNotSealedError } from '../../shared/outbox/index.ts';
import { transaction } from '../../shared/database/index.ts';
import { sealData, type SealingKeys } from '../../shared/sealing/index.ts';
import { sealedPattern } from '../../shared/sealing/sealed-text.ts';
import { compileCatalogue } from '../support/compile-catalogue.ts';
import { testDatabase } from '../support/database.ts';
import { append } from '../support/outbox.ts';
import { EVENT, testKey } from '../support/sealing.ts';

const marked = { type: 'string', 'x-gdpr-sensitive': true } as const;
const text = { type: 'string' } as const;
const definition = defineCatalogue({
  source: '/test',
  destinations: { queue: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
  events: {
    'person.named': {
      aggregate: 'person',
      whenParked: 'block',
      destinations: ['queue'],
      sensitive: { class: 'contact', subject: { kind: 'person', id: '/id' } },
      versions: {
        1: { type: 'object', additionalProperties: false, required: ['id'], properties: { id: text } },
        2: {
          type: 'object',
          additionalProperties: false,
          required: ['id'],
          properties: {
            id: text,
            name: { ...marked, type: ['string', 'null'] },
            'a/b "c"': marked,
            lines: {
              type: 'array',
              items: {
                type: 'object',
                additionalProperties: false,
                properties: { note: marked, n: { type: 'integer' } },
              },
            },
            pair: { type: 'array', items: false, minItems: 2, prefixItems: [text, marked] },
            rest: { type: 'object', properties: { open: text }, additionalProperties: marked },
            some: {
              type: 'object',
              additionalProperties: text,
              patternProperties: { '^p-[a-z]+$': marked, '^n-': { type: 'integer' } },
            },
            tree: { $ref: '#/$defs/node' },
          },
          $defs: {
            node: {
              type: 'object',
              additionalProperties: false,
              properties: { name: marked, kids: { type: 'array', items: { $ref: '#/$defs/node' } } },
            },
          },
        },
      },
    },
    'person.seen': {
      aggregate: 'person',
      whenParked: 'block',
      destinations: ['queue'],
      versions: { 1: { type: 'object' } },
    },
  },
});
const catalogue = compileCatalogue(definition);
const { plan, validate } = catalogue.sealed.get('person.named/2')!;
const key: SealingKeys = (className) => testKey('one', { class: className });

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer', 2);
const rows = catalogueRows(definition);
await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(rows)]);

const event = (data: unknown, more: object = {}): object => ({
  type: 'person.named',
  aggregate_type: 'person',
  aggregate_id: 'P-1',
  data,
  ...more,
});
const sealed = (data: object): Record<string, unknown> =>
  sealData({ id: 'P-1', ...data }, plan, key, { ...EVENT, eventType: 'person.named' }) as Record<string, unknown>;
const refusal = async (data: unknown): Promise<{ code?: string; message: string } | null> => {
  try {
    await append(writer, event(data));
    return null;
  } catch (error) {
    return error as Error;
  }
};

const full = {
  name: 'Ada',
  'a/b "c"': 'x',
  lines: [{ n: 1 }, { note: 'secret' }],
  pair: ['clear', 'secret'],
  rest: { open: 'clear', other: 'secret', '': 'secret' },
  some: { 'p-x': 'secret', 'p-1': 'clear', 'n-1': 7, other: 'clear' },
  tree: { kids: [{ kids: [{ name: 'secret' }] }] },
};

/** A marked name so many kids deep. */
const nested = (levels: number): object => (levels === 0 ? { name: 'secret' } : { kids: [nested(levels - 1)] });

describe('append refuses clear text where the catalogue wants it sealed, whoever calls it', () => {
  it('case 65: sealed data passes, and the wire schema says the same', async () => {
    expect(validate(sealed(full))).toBe(true);
    expect(await refusal(sealed(full))).toBeNull();
    expect(await refusal({ id: 'P-1' })).toBeNull();
    expect(await refusal({ ...sealed(full), name: null, rest: { other: 'erased.1' } })).toBeNull();
  });

  test.each([
    ['.name', { name: 'secret' }],
    ['["a/b \\"c\\""]', { 'a/b "c"': 'secret' }],
    ['.lines[1].note', { lines: full.lines }],
    ['.pair[1]', { pair: full.pair }],
    ['.rest.other', { rest: { open: 'clear', other: 'secret' } }],
    ['.rest.__proto__', { rest: JSON.parse('{"__proto__":"secret"}') as object }],
    ['.rest.constructor', { rest: { constructor: 'secret' } }],
    ['.rest["~"]', { rest: { '~': 'secret' } }],
    ['.rest["~1/a~0"]', { rest: { '~1/a~0': 'secret' } }],
    ['.rest[""]', { rest: { '': 'secret' } }],
    ['.lines[9999].note', { lines: [...Array.from({ length: 9_999 }, () => ({ n: 1 })), { note: 'secret' }] }],
    [`.tree${'.kids[0]'.repeat(50)}.name`, { tree: nested(50) }],
    ['.some["p-x"]', { some: full.some }],
    ['.tree.kids[0].kids[0].name', { tree: full.tree }],
    ['.name', { name: 7 }],
    ['.name', { name: { first: 'secret' } }],
    ['.name', { name: '' }],
    ['.name', { name: 'sealed.1.contact.secret' }],
    ['.name', { name: `${String(sealed({ name: 'x' })['name'])} ` }],
    ['.name', { name: String(sealed({ name: 'x' })['name']).replace('contact', 'tax') }],
  ])('case 65: clear at %s', async (path, clear) => {
    const data = { ...sealed(full), ...clear };
    expect(validate(data)).toBe(false);
    const error = await refusal(data);
    expect(error).toMatchObject({ code: 'OB010' });
    expect(error!.message).toContain(`events[0].data${path} is clear text`);
    expect(error!.message).not.toContain('secret');
  });

  it('like case 65: whatever is changed in a sealed text, the database takes what the pattern takes, and nothing else', async () => {
    const whole = String(sealed({ name: 'x' })['name']);
    const pattern = sealedPattern('contact');
    const texts = [
      whole,
      `${whole}\n`,
      `\n${whole}`,
      'erased.1',
      'erased.1 ',
      '',
      'sealed.1.contact',
      whole.replace('.1.', '.2.'),
    ];
    for (const version of ['0', '01', '9999999999', '99999999999', '1.1', '', '-1']) {
      texts.push(whole.replace(/^((?:[^.]*\.){4})1/, `$1${version}`));
    }
    for (let at = 0; at < whole.length; at += 1) {
      for (const by of ['', '.', 'A', 'x', '0', '\n', 'é', '\\'])
        texts.push(whole.slice(0, at) + by + whole.slice(at + 1));
    }
    const { rows } = await (
      await database.superuser()
    ).query(
      `select t.text from unnest($1::text[]) as t (text)
        where outbox.clear_text(to_jsonb(t.text), jsonb_build_object('nodes', jsonb_build_array(jsonb_build_object('sealed', $2::text)))) is null`,
      [texts, pattern],
    );
    const taken = texts.filter((it) => new RegExp(pattern, 'u').test(it));
    expect(taken.length).toBeGreaterThan(100);
    expect(taken.length).toBeLessThan(texts.length - 100);
    expect(rows.map((row) => row.text as string).toSorted()).toEqual(taken.toSorted());
  });

  it('like case 65: the second of several events, and nothing of them is written', async () => {
    const before = await owner.query('select count(*) from outbox.event');
    const events = [event(sealed(full)), event({ id: 'P-1', name: 'secret' })];
    await expect(append(writer, ...events)).rejects.toMatchObject({
      code: 'OB010',
      message: expect.stringContaining('events[1].data.name'),
    });
    expect((await owner.query('select count(*) from outbox.event')).rows).toEqual(before.rows);
  });

  it('like case 65: whatever version is named, by its own marks', async () => {
    const clear = event({ id: 'P-1', name: 'not marked there' }, { schema_version: 1 });
    await expect(append(writer, clear)).resolves.toHaveLength(1);
    await expect(append(writer, event({ id: 'P-1', name: 'secret' }, { schema_version: 2 }))).rejects.toMatchObject({
      code: 'OB010',
    });
  });

  it('types without marks are not looked at', async () => {
    const { rows: kept } = await owner.query(
      'select type, schema_version, sealed_paths is null as nowhere from outbox.event_type order by 1, 2',
    );
    expect(kept).toEqual([
      { type: 'person.named', schema_version: 1, nowhere: true },
      { type: 'person.named', schema_version: 2, nowhere: false },
      { type: 'person.seen', schema_version: 1, nowhere: true },
    ]);
    await append(writer, {
      type: 'person.seen',
      aggregate_type: 'person',
      aggregate_id: 'P-1',
      data: { name: 'clear' },
    });
  });

  it('an older deployment, which knows no marks, does not take them away', async () => {
    const older = { ...rows, event_types: rows.event_types.map((row) => ({ ...row, sealed_paths: undefined })) };
    await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(older)]);
    const unmarked = { ...rows, event_types: rows.event_types.map((row) => ({ ...row, sealed_paths: null })) };
    await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(unmarked)]);
    expect(await refusal({ ...sealed(full), name: 'secret' })).toMatchObject({ code: 'OB010' });
  });

  it('nobody but the owner may ask, and a writer cannot change what is sealed', async () => {
    const ask = `select outbox.clear_text('{}', '{}')`;
    for (const user of ['sealed_writer', 'sealed_relay', 'sealed_monitor', 'sealed_ledger'] as const) {
      await expect(database.pool(user).query(ask)).rejects.toMatchObject({ code: '42501' });
      await expect(database.pool(user).query('update outbox.event_type set sealed_paths = null')).rejects.toMatchObject(
        { code: '42501' },
      );
    }
  });
});

describe('the library', () => {
  // Types cannot follow a recursive schema.
  const untyped: CompiledCatalogue = catalogue;
  const outbox = createOutbox({ catalogue: untyped });

  it('like case 65: refuses an event with marks before the database sees it, when no key was prepared', async () => {
    const named = {
      type: 'person.named',
      aggregate: { type: 'person', id: 'P-1' },
      data: { id: 'P-1', name: 'secret' },
    } as const;
    await transaction(writer, async (tx) => {
      await expect(outbox.append(tx, [named])).rejects.toMatchObject({
        code: 'KEYS_NOT_PREPARED',
        message: expect.not.stringContaining('secret'),
      });
      // The transaction goes on: nothing was sent.
      await tx.query('select');
    });
  });

  it('gives the refusal of the database its own error', async () => {
    const marksOnlyThere = createOutbox({
      catalogue: compileCatalogue({
        ...definition,
        events: {
          'person.named': {
            ...definition.events['person.named'],
            versions: { 1: { type: 'object' }, 2: { type: 'object' } },
          },
        },
      }),
    });
    const call = transaction(writer, (tx) =>
      marksOnlyThere.append(tx, [
        {
          type: 'person.named',
          aggregate: { type: 'person', id: 'P-1' },
          data: { id: 'P-1', lines: [{ note: 'secret' }] },
        },
      ]),
    );
    await expect(call).rejects.toBeInstanceOf(EventNotSealedError);
    await expect(call).rejects.toMatchObject({ field: 'events[0].data.lines[0].note' });
  });
});
