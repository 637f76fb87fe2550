import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, expectTypeOf, it } from 'vitest';
import { buildEnvelope, defineCatalogue, upcaster } from '../../../shared/events/index.ts';
import { type ConsumedEvent, type ConsumerOptions, eventConsumer, retryHeld } from '../../../shared/inbox/index.ts';
import {
  createKeyring,
  isErased,
  isSealed,
  type Kms,
  neededKeys,
  postgresVault,
  type Sealed,
  sealData,
  type Vault,
} from '../../../shared/sealing/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';
import { testKey } from '../../support/sealing.ts';
import { drainOf, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const text = { type: 'string' } as const;
const versions = {
  1: {
    type: 'object',
    additionalProperties: false,
    required: ['personId'],
    properties: {
      personId: text,
      name: { ...text, maxLength: 40, 'x-gdpr-sensitive': true },
      taxId: { ...text, 'x-gdpr-sensitive': { class: 'tax' } },
    },
  },
  2: {
    type: 'object',
    additionalProperties: false,
    required: ['personId', 'size'],
    properties: {
      personId: text,
      size: { type: 'integer' },
      name: { ...text, maxLength: 40, 'x-gdpr-sensitive': { erasedValue: '(erased)' } },
      taxId: { ...text, 'x-gdpr-sensitive': { class: 'tax' } },
    },
  },
} as const;
const catalogue = compileCatalogue(
  defineCatalogue({
    source: '/test',
    destinations: { all: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
    events: {
      'person.named': {
        aggregate: 'person',
        whenParked: 'block',
        destinations: ['all'],
        sensitive: { class: 'contact', subject: { kind: 'person', id: '/personId' } },
        versions,
        upcast: { 1: upcaster(versions[1], versions[2])((data) => ({ ...data, size: 1 })) },
      },
    },
  }),
);
type Named = ConsumedEvent<typeof catalogue, 'person.named'>;

const CANARY = 'canary-41d7';
const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const kms = fakeKms();
const writing = createKeyring({ name: 'test', vault: postgresVault(database.pool('sealed_sealer')), kms });

beforeAll(async () => {
  await owner.query(`select vault.set_access('sealed_sealer', '{}', '{contact,tax}')`);
  await owner.query(`select vault.set_access('sealed_opener', '{contact}', '{}')`);
});

interface Place {
  readonly person?: string;
  readonly sequence?: bigint;
  readonly version?: 1 | 2;
}

/** A message with sealed data, and what was made of the data before it was sent. */
async function message(
  data: object,
  { person = 'P-1', sequence = 1n, version = 2 }: Place = {},
  change: (sealed: Record<string, unknown>) => object = (sealed) => sealed,
) {
  const id = randomUUID();
  const { plan } = catalogue.sealed.get(`person.named/${version}`)!;
  const whole = { personId: person, ...(version === 2 && { size: 2 }), ...data };
  const keys = await writing.keysToSeal(neededKeys(whole, plan));
  const place = { eventType: 'person.named', aggregateType: 'person', aggregateId: person, eventId: id } as const;
  const sealed = sealData(whole, plan, keys, { in: 'event', ...place }) as Record<string, unknown>;
  const body = buildEnvelope({
    id,
    source: '/test',
    type: 'person.named',
    schemaVersion: version,
    aggregateType: 'person',
    aggregateId: person,
    sequence,
    occurredAt: new Date().toISOString(),
    data: JSON.stringify(change(sealed)),
    metadata: null,
  });
  expect(body).not.toContain(CANARY);
  return fifoRecord(person, body);
}

interface Options {
  /** Of one that another process has run before. */
  readonly name?: string;
  readonly opens?: readonly string[];
  readonly kms?: Kms;
  readonly mode?: 'any' | 'strict';
  readonly connections?: number;
}

/** A consumer that keeps what its handler saw, and counts the reads of its vault. */
function consumerOf(options: Options = {}) {
  const { name = `sealed-${randomUUID()}`, opens = ['contact'], mode = 'any', connections = 2 } = options;
  const pool = database.pool('sealed_opener', connections);
  const seen: Named['data'][] = [];
  const log = recordingLog();
  let reads = 0;
  const real = postgresVault(pool);
  const vault: Vault = {
    ...real,
    read: (...asked) => {
      reads += 1;
      return real.read(...asked);
    },
  };
  const declared: ConsumerOptions<typeof catalogue> = {
    name,
    catalogue,
    pool,
    log,
    metrics: recordingMetrics(),
    keyring: createKeyring({ name: 'test', vault, kms: options.kms ?? kms }),
    opens,
    handlers: {
      'person.named': async ({ data }) => void seen.push(data),
    },
    ...(mode === 'strict' ? { mode, startingPoint: 'beginning', destination: 'all' } : { mode }),
  };
  const held = async (): Promise<string[]> => {
    const { rows } = await owner.query(
      `select reason || ' ' || coalesce(split_part(last_error, ' ', 1), '') as held
         from inbox.held_event where consumer = $1 and not queued order by aggregate_id, sequence`,
      [name],
    );
    return rows.map((row) => row.held as string);
  };
  return { name, handler: eventConsumer(declared), seen, log, held, reads: () => reads };
}

describe('a consumer of sealed events', () => {
  it('sees what its classes open, and the rest as sealed values', async () => {
    const { handler, seen, held } = consumerOf();
    expect(await invoke(handler, [await message({ name: 'Ada', taxId: '17' })])).toEqual([]);
    expect(seen).toEqual([{ personId: 'P-1', size: 2, name: 'Ada', taxId: expect.anything() }]);
    expect(isSealed(seen[0]?.taxId)).toBe(true);
    expect(isErased(seen[0]?.taxId)).toBe(false);
    expect(await held()).toEqual([]);
  });

  it('that opens nothing sees nothing, and asks nobody for keys', async () => {
    const { handler, seen, reads } = consumerOf({ opens: [] });
    await invoke(handler, [await message({ name: 'Ada' })]);
    expect(isSealed(seen[0]?.name)).toBe(true);
    expect(reads()).toBe(0);
  });

  it('loads the keys of a batch in one read, with a pool of one: so before any transaction', async () => {
    const { handler, seen, reads } = consumerOf({ connections: 1 });
    const batch = [];
    for (let index = 0; index < 10; index += 1) {
      batch.push(await message({ name: `N-${index}` }, { person: `B-${index % 7}`, sequence: BigInt(index + 1) }));
    }
    expect(await invoke(handler, batch)).toEqual([]);
    expect(seen).toHaveLength(10);
    expect(reads()).toBe(1);
  });

  it('reads older versions: opened as they were written, then upcast, whether or not all is open', async () => {
    const { handler, seen } = consumerOf();
    await invoke(handler, [
      await message({ name: 'Ada' }, { version: 1 }),
      await message({ name: 'Grace', taxId: '17' }, { version: 1, sequence: 2n }),
    ]);
    expect(seen).toEqual([
      { personId: 'P-1', size: 1, name: 'Ada' },
      { personId: 'P-1', size: 1, name: 'Grace', taxId: expect.anything() },
    ]);
  });

  it('like case 49: gets what the mark says, or a closed value, for whom is erased, and others open', async () => {
    const { handler, seen } = consumerOf();
    const batch = [
      await message({ name: 'Ada' }, { person: 'E-gone' }),
      await message({ name: 'Ada' }, { person: 'E-gone', version: 1, sequence: 2n }),
      await message({ name: 'Grace' }, { person: 'E-stays' }),
    ];
    await owner.query(`update vault.subject_key set wrapped = null where subject_id = 'E-gone'`);
    expect(await invoke(handler, batch)).toEqual([]);
    const names = new Map(seen.map((data) => [`${data.personId} ${data.size}`, data.name]));
    expect(names.get('E-gone 2')).toBe('(erased)');
    expect(isErased(names.get('E-gone 1'))).toBe(true);
    expect(names.get('E-stays 2')).toBe('Grace');
  });

  it('knows by its types that a marked value may be closed', () => {
    expectTypeOf<Named['data']['name']>().toEqualTypeOf<string | Sealed<string> | undefined>();
    expectTypeOf<Named['data']['personId']>().toEqualTypeOf<string>();
  });

  it('is refused when it opens classes without a keyring, or that are not marked', () => {
    const { name, handler } = consumerOf();
    expect(handler).toBeTypeOf('function');
    const options = {
      name,
      catalogue,
      pool: owner,
      log: recordingLog(),
      metrics: recordingMetrics(),
      mode: 'any',
    } as const;
    expect(() => eventConsumer({ ...options, handlers: {}, opens: ['contact'] })).toThrow('no keyring');
    expect(() => eventConsumer({ ...options, handlers: {}, opens: ['contcat'], keyring: writing })).toThrow('contcat');
  });
});

describe('an event that cannot be opened', () => {
  it('case 36: is held when its key is unknown, it was changed, or it is no sealed value, each with its code', async () => {
    const { handler, held, log } = consumerOf();
    const other = testKey('nobody knows');
    const sealedName = (sealed: Record<string, unknown>): string => sealed['name'] as string;
    const changes: ((sealed: Record<string, unknown>) => object)[] = [
      (sealed) => ({ ...sealed, name: sealedName(sealed).replace(/contact\.[^.]+/, `contact.${other.keyId}`) }),
      (sealed) => ({ ...sealed, name: `${sealedName(sealed).slice(0, -40)}${'A'.repeat(40)}` }),
      (sealed) => ({ ...sealed, name: `${sealedName(sealed)}AAAA` }),
      (sealed) => ({ ...sealed, name: 'clear' }),
      (sealed) => ({ ...sealed, name: `${sealedName(sealed)}${'A'.repeat(400_000)}` }),
    ];
    const batch = [];
    for (const [index, change] of changes.entries()) {
      batch.push(await message({ name: CANARY }, { person: `H-${index}` }, change));
    }
    expect(await invoke(handler, batch)).toEqual([]);
    expect(await held()).toEqual([
      'malformed SEALING_KEY_UNKNOWN',
      'malformed SEALING_TAMPERED',
      'malformed SEALING_MALFORMED',
      'malformed EVENT_DATA_INVALID',
      'malformed SEALING_LIMIT',
    ]);
    expect(JSON.stringify(log.lines)).not.toContain(CANARY);
  });

  it('is held when what opens breaks the schema, in words that hold nothing of it', async () => {
    const { handler, held, log } = consumerOf();
    await invoke(handler, [await message({ name: CANARY.repeat(10) })]);
    expect(await held()).toEqual(['malformed EVENT_DATA_INVALID']);
    expect(JSON.stringify(log.lines)).toContain('data/name');
    expect(JSON.stringify(log.lines)).not.toContain(CANARY);
  });

  it('is held as denied when its login may not have the class that it opens; others are applied', async () => {
    const { handler, held, seen, name } = consumerOf({ opens: ['contact', 'tax'], mode: 'strict' });
    const denied = await message({ name: 'Ada', taxId: '17' }, { person: 'D-1' });
    expect(await invoke(handler, [denied, await message({ name: 'Grace' }, { person: 'D-2' })])).toEqual([]);
    expect(await held()).toEqual(['denied SEALING_DENIED']);
    expect(seen).toEqual([{ personId: 'D-2', size: 2, name: 'Grace' }]);

    // Once the class is granted, an operator has it tried again by another process.
    const { id } = JSON.parse(denied.body) as { id: string };
    await owner.query(`select vault.set_access('sealed_opener', '{contact,tax}', '{}')`);
    await retryHeld(database.pool('sealed_operator'), name, id, 'granted');
    const again = consumerOf({ name, opens: ['contact', 'tax'], mode: 'strict' });
    await drainOf(again.handler);
    expect(again.seen).toEqual([{ personId: 'D-1', size: 2, name: 'Ada', taxId: '17' }]);
    await owner.query(`select vault.set_access('sealed_opener', '{contact}', '{}')`);
  });

  it('is held as denied when KMS denies', async () => {
    const failing = fakeKms();
    failing.failure = 'SEALING_DENIED';
    const { handler, held } = consumerOf({ kms: failing });
    expect(await invoke(handler, [await message({ name: 'Ada' })])).toEqual([]);
    expect(await held()).toEqual(['denied SEALING_DENIED']);
  });

  it.each(['SEALING_THROTTLED', 'SEALING_UNAVAILABLE', 'SEALING_KEY_DISABLED'] as const)(
    'goes back with what is behind it, uncounted, while KMS says %s; what needs no key is applied',
    async (failure) => {
      const failing = fakeKms();
      failing.failure = failure;
      const { handler, held, seen, log } = consumerOf({ kms: failing, mode: 'strict' });
      const group = [
        await message({}, { person: 'R-1' }),
        await message({ name: 'Ada' }, { person: 'R-1', sequence: 2n }),
        await message({}, { person: 'R-1', sequence: 3n }),
      ];
      const other = await message({}, { person: 'R-2' });
      for (let time = 0; time < 7; time += 1) {
        const batch = time === 0 ? [...group, other] : group.slice(1);
        expect(await invoke(handler, batch)).toEqual(group.slice(1).map(({ messageId }) => messageId));
      }
      expect(log.lines).toContainEqual(
        expect.objectContaining({
          fields: expect.objectContaining({ class: 'retry', code: failure, returnedBehind: 1 }),
        }),
      );
      expect(await held()).toEqual([]);
      expect(seen).toHaveLength(2);
      failing.failure = null;
      expect(await invoke(handler, group.slice(1))).toEqual([]);
      expect(seen.slice(2).map(({ name }) => name)).toEqual(['Ada', undefined]);
    },
  );
});

describe('held events that are sealed', () => {
  it('are applied in order when their gap closes, with a pool of one: keys are loaded before the transaction', async () => {
    const { handler, held, seen } = consumerOf({ mode: 'strict', connections: 1 });
    const [first, second, third] = [
      await message({ name: 'one' }, { person: 'G-1' }),
      await message({ name: 'two' }, { person: 'G-1', sequence: 2n }),
      await message({ name: 'three' }, { person: 'G-1', sequence: 3n }),
    ];
    await invoke(handler, [third]);
    await invoke(handler, [second]);
    expect(await held()).toEqual(['gap ', 'gap ']);
    await invoke(handler, [first]);
    expect(seen.map(({ name }) => name)).toEqual(['one', 'two', 'three']);
  });

  it('stay held while their keys cannot be loaded, and are applied later', async () => {
    const failing = fakeKms();
    const before = consumerOf({ mode: 'strict' });
    const second = await message({ name: 'two' }, { person: 'G-2', sequence: 2n });
    await invoke(before.handler, [second]);
    const reader = consumerOf({ name: before.name, mode: 'strict', kms: failing });
    failing.failure = 'SEALING_UNAVAILABLE';
    await invoke(reader.handler, [await message({}, { person: 'G-2' })]);
    expect(await reader.held()).toEqual(['gap ']);
    expect(reader.seen).toHaveLength(1);
    failing.failure = null;
    await drainOf(reader.handler);
    expect(reader.seen.map(({ name }) => name)).toEqual([undefined, 'two']);
    expect(await reader.held()).toEqual([]);
  });
});
