import { KMS } from '@aws-sdk/client-kms';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { defineCatalogue } from '../../shared/events/index.ts';
import { classifyFailure, type FailureClass } from '../../shared/inbox/failure.ts';
import { createOutbox } from '../../shared/outbox/index.ts';
import {
  createKeyring,
  isErased,
  type Keyring,
  type Kms,
  kmsKeys,
  openData,
  sealData,
  sealedWith,
  sealingAnswer,
  type SealingErrorCode,
  sealingPlan,
} from '../../shared/sealing/index.ts';
import { testTransaction } from '../../shared/testing/index.ts';
import { foundLocalStack } from '../support/found-localstack.ts';
import { compileCatalogue } from '../support/compile-catalogue.ts';
import { keyringUnderTest, type KeyringUnderTest } from '../support/keyring.ts';
import { type KmsProxy, startKmsProxy } from '../support/kms-proxy.ts';
import { EVENT } from '../support/sealing.ts';

const localstack = await foundLocalStack();
const schema = {
  type: 'object',
  additionalProperties: false,
  required: ['personId'],
  properties: { personId: { type: 'string' }, name: { type: 'string', 'x-gdpr-sensitive': true } },
} as const;
const sensitive = { class: 'contact', subject: { kind: 'customer', id: '/personId' } } as const;
const plan = sealingPlan(schema, sensitive)!;
const type = { aggregate: 'person', whenParked: 'block', destinations: [], sensitive } as const;
const catalogue = compileCatalogue(
  defineCatalogue({
    source: '/test',
    destinations: {},
    events: {
      'person.named': { ...type, versions: { 1: schema } },
      'person.left': { ...type, versions: { 1: { type: 'object' } } },
    },
  }),
);
const needed = { class: 'contact', subject: { kind: 'customer', id: 'P-1' } };
const CLEAR = { personId: 'P-1', name: 'canary-59c1' };

/** One person, sealed data about them, and a process that has their keys in memory. */
interface Stage extends KeyringUnderTest {
  readonly keyArn: string;
  /** A process with nothing in memory. */
  cold(): Keyring;
  readonly warm: Keyring;
  data: Record<string, unknown>;
}

interface Row {
  readonly what: string;
  readonly arrange: (stage: Stage) => unknown;
  readonly code: SealingErrorCode;
  /** What an API answers whose `prepare` fails so; null where `prepare` is not concerned. */
  readonly api: { readonly status: number; readonly retryAfter?: number } | null;
  readonly consumer: FailureClass;
  /** Whether a process that has the branch key in memory goes on with it past 15 minutes. */
  readonly goesOn: boolean;
}

describe('what API and consumer do when sealed data does not open', () => {
  let client: KMS;
  let proxied: KMS;
  let proxy: KmsProxy;

  beforeAll(async () => {
    if ('missing' in localstack) return;
    proxy = await startKmsProxy(localstack.endpoint);
    client = new KMS({ ...localstack, maxAttempts: 1 });
    proxied = new KMS({ ...localstack, endpoint: proxy.endpoint, maxAttempts: 1 });
    // The first call of a service loads it.
    await client.listKeys({});
  });
  beforeEach((test) => {
    if ('missing' in localstack) test.skip(localstack.missing);
  });
  afterAll(async () => {
    client?.destroy();
    proxied?.destroy();
    await proxy?.close();
  });

  async function stage(): Promise<Stage> {
    proxy.fault = null;
    const keyArn = (await client.createKey({})).KeyMetadata!.Arn!;
    const under = keyringUnderTest();
    // LocalStack may take long; where nobody is to answer, the call is given up soon.
    const kms = (): Kms => kmsKeys({ client: proxied, keyArn, timeoutMs: proxy.fault === 'silent' ? 100 : 30_000 });
    const asked: Kms = {
      generate: (...call) => kms().generate(...call),
      wrap: (...call) => kms().wrap(...call),
      unwrap: (...call) => kms().unwrap(...call),
    };
    const cold = (): Keyring => createKeyring({ name: 'test', vault: under.vault, kms: asked, clock: under.clock });
    const warm = cold();
    const data = sealData(CLEAR, plan, await warm.keysToSeal([needed]), EVENT) as Record<string, unknown>;
    return { ...under, keyArn, cold, warm, data };
  }

  const opens = async (keyring: Keyring, data: unknown): Promise<unknown> =>
    openData(data, plan, await keyring.keysToOpen(sealedWith(data, plan)), EVENT);
  const answers = (status: number, type: string) => () => (proxy.fault = { status, type });
  const AWAY = { api: { status: 503, retryAfter: 5 }, consumer: 'retry', goesOn: true } as const;
  const OFF = {
    code: 'SEALING_KEY_DISABLED',
    api: { status: 503, retryAfter: 60 },
    consumer: 'retry',
    goesOn: false,
  } as const;
  const BROKEN = { api: { status: 500 }, consumer: 'malformed', goesOn: false } as const;

  const ROWS: readonly Row[] = [
    { what: 'KMS throttles', arrange: answers(400, 'ThrottlingException'), code: 'SEALING_THROTTLED', ...AWAY },
    { what: 'KMS fails', arrange: answers(500, 'KMSInternalException'), code: 'SEALING_UNAVAILABLE', ...AWAY },
    { what: 'KMS cannot be reached', arrange: () => (proxy.fault = 'broken'), code: 'SEALING_UNAVAILABLE', ...AWAY },
    {
      what: 'KMS does not answer in time',
      arrange: () => (proxy.fault = 'silent'),
      code: 'SEALING_UNAVAILABLE',
      ...AWAY,
    },
    {
      what: 'the credentials have expired',
      arrange: answers(400, 'ExpiredTokenException'),
      code: 'SEALING_UNAVAILABLE',
      ...AWAY,
    },
    {
      what: 'the role may not use the class in KMS',
      arrange: answers(400, 'AccessDeniedException'),
      code: 'SEALING_DENIED',
      api: { status: 500 },
      consumer: 'denied',
      goesOn: false,
    },
    { what: 'the KMS key is disabled', arrange: ({ keyArn }) => client.disableKey({ KeyId: keyArn }), ...OFF },
    {
      what: 'the KMS key is about to be deleted',
      arrange: ({ keyArn }) => client.scheduleKeyDeletion({ KeyId: keyArn, PendingWindowInDays: 7 }),
      ...OFF,
    },
    {
      what: 'the KMS key does not exist',
      arrange: ({ vault, keyArn }) => replaceBranch(vault, { kmsKey: `${keyArn.slice(0, -12)}000000000000` }),
      ...OFF,
    },
    {
      what: 'the branch key was changed in the vault',
      arrange: ({ vault }) => replaceBranch(vault, { wrapped: changed(vault.branches[0]!.wrapped) }),
      code: 'SEALING_TAMPERED',
      ...BROKEN,
    },
    {
      what: 'the key of the person is none',
      arrange: ({ vault }) => (vault.subjects[0] = { ...vault.subjects[0]!, wrapped: Buffer.alloc(64, 1) }),
      code: 'SEALING_MALFORMED',
      ...BROKEN,
    },
    {
      what: 'the branch key is gone from the vault',
      arrange: ({ vault }) => vault.branches.pop(),
      code: 'SEALING_KEY_UNKNOWN',
      ...BROKEN,
    },
    {
      what: 'the sealed value was changed',
      arrange: (stage) => (stage.data = { ...stage.data, name: flipped(stage.data['name'] as string) }),
      code: 'SEALING_TAMPERED',
      ...BROKEN,
      api: null,
    },
    {
      what: 'the sealed value is none',
      arrange: (stage) => (stage.data = { ...stage.data, name: `${stage.data['name'] as string}=` }),
      code: 'SEALING_MALFORMED',
      ...BROKEN,
      api: null,
    },
    {
      what: 'the sealed value has a key that does not exist',
      arrange: ({ vault }) => vault.subjects.pop(),
      code: 'SEALING_KEY_UNKNOWN',
      ...BROKEN,
      api: null,
    },
    {
      what: 'the sealed value is longer than any',
      arrange: (stage) =>
        (stage.data = { ...stage.data, name: `${stage.data['name'] as string}${'A'.repeat(400_000)}` }),
      code: 'SEALING_LIMIT',
      ...BROKEN,
      api: null,
    },
  ];

  it.each(ROWS)('$what: $code', async ({ arrange, code, api, consumer, goesOn }) => {
    const on = await stage();
    await arrange(on);

    const opened = await opens(on.cold(), on.data).catch((error: unknown) => error);
    expect(opened).toMatchObject({ code });
    expect(String(opened)).not.toContain(CLEAR.name);
    expect(classifyFailure(opened)).toMatchObject({ class: consumer, code });
    expect(sealingAnswer(opened)?.status).toBe(api?.status ?? 500);
    if (api === null) return;

    const refused = await on
      .cold()
      .keysToSeal([needed])
      .catch((error: unknown) => error);
    expect(refused).toMatchObject({ code });
    expect(sealingAnswer(refused)).toEqual(api);

    await on.clock.advance(16 * 60_000);
    const after = await opens(on.warm, on.data).catch((error: unknown) => error);
    if (goesOn) expect(after).toEqual(CLEAR);
    else expect(after).toMatchObject({ code });
  });

  const subject = { kind: 'customer', id: 'P-1' };
  const outboxOf = (keyring?: Keyring) => createOutbox({ catalogue, ...(keyring && { keyring }) });
  type Writing = (outbox: ReturnType<typeof outboxOf>, on: Stage) => Promise<unknown>;
  /** Prepares for `subjects`, lets `minutes` pass, and appends. */
  const appends =
    ({
      subjects = [subject],
      types = ['person.named', 'person.left'],
      minutes = 0,
      data = CLEAR,
    }: {
      readonly subjects?: readonly (typeof subject)[];
      readonly types?: readonly ('person.named' | 'person.left')[];
      readonly minutes?: number;
      readonly data?: object;
    }): Writing =>
    async (outbox, { clock }) => {
      const writer = await outbox.prepare({ subjects, types });
      await clock.advance(minutes * 60_000);
      const tx = testTransaction();
      const event = { type: 'person.named', aggregate: { type: 'person', id: 'P-1' }, data };
      await writer.append(tx, [event as never]);
      return tx.appended;
    };

  it('a writer with keys of KMS appends', async () => {
    const on = await stage();
    const outbox = outboxOf(on.cold());
    expect(await appends({ minutes: 1 })(outbox, on)).toMatchObject([
      { data: { personId: 'P-1', name: expect.stringMatching(/^sealed\.1\.contact\./) } },
    ]);
  });

  it.each<[what: string, code: string, status: number, writing: Writing]>([
    [
      'a value says of itself that it is sealed',
      'SEALING_REFUSED',
      400,
      appends({ data: { ...CLEAR, name: 'erased.1' } }),
    ],
    [
      'JSON would change a value',
      'SEALING_REFUSED',
      400,
      async (_, on) =>
        sealData({ ...CLEAR, name: `${CLEAR.name}\ud800` }, plan, await on.cold().keysToSeal([needed]), EVENT),
    ],
    ['a person has no sound id', 'SEALING_REFUSED', 400, appends({ subjects: [{ kind: 'customer', id: '' }] })],
    ['the person was not named', 'KEYS_NOT_PREPARED', 500, appends({ subjects: [] })],
    ['another class is needed', 'KEYS_NOT_PREPARED', 500, appends({ types: ['person.left'] })],
    ['the writer is too old', 'KEYS_NOT_PREPARED', 500, appends({ minutes: 5 })],
    ['there is no keyring', 'KEYS_NOT_PREPARED', 500, (_, on) => appends({})(outboxOf(), on)],
  ])('a writer, when %s: %s', async (_, code, status, writing) => {
    const on = await stage();
    const refused = await writing(outboxOf(on.cold()), on).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code });
    expect(String(refused)).not.toContain(CLEAR.name);
    expect(sealingAnswer(refused)).toEqual({ status });
  });

  it('the person is erased: an answer, and no error', async () => {
    const on = await stage();
    on.vault.erase('P-1');
    const opened = (await opens(on.cold(), on.data)) as typeof CLEAR;
    expect(isErased(opened.name)).toBe(true);
    expect(sealData(CLEAR, plan, await on.cold().keysToSeal([needed]), EVENT)).toEqual({
      personId: 'P-1',
      name: 'erased.1',
    });
  });
});

function replaceBranch(vault: KeyringUnderTest['vault'], part: object): void {
  vault.branches[0] = { ...vault.branches[0]!, ...part };
}

function changed(bytes: Uint8Array): Uint8Array {
  const copy = Buffer.from(bytes);
  copy.writeUInt8(copy.readUInt8(copy.length - 1) ^ 1, copy.length - 1);
  return copy;
}

function flipped(sealed: string): string {
  const dot = sealed.lastIndexOf('.') + 1;
  return sealed.slice(0, dot) + Buffer.from(changed(Buffer.from(sealed.slice(dot), 'base64url'))).toString('base64url');
}
