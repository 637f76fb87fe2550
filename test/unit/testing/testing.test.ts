import { describe, expect, it } from 'vitest';
import { defineCatalogue, parseEnvelope } from '../../../shared/events/index.ts';
import { type Handlers, handlerSteps } from '../../../shared/inbox/index.ts';
import { createOutbox } from '../../../shared/outbox/index.ts';
import { isErased } from '../../../shared/sealing/index.ts';
import { type GivenEvent, testCatalogue, testKeyring, testTransaction } from '../../../shared/testing/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';

const catalogue = compileCatalogue(
  defineCatalogue({
    source: '/orders',
    destinations: { shipping: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
    events: {
      'order.placed': {
        aggregate: 'order',
        whenParked: 'block',
        destinations: ['shipping'],
        versions: {
          1: {
            type: 'object',
            additionalProperties: false,
            required: ['items', 'buyer', 'name'],
            properties: {
              items: { type: 'integer', minimum: 1 },
              buyer: { type: 'string' },
              name: {
                type: 'string',
                'x-gdpr-sensitive': { class: 'contact', subject: { kind: 'buyer', id: '/buyer' } },
              },
            },
          },
        },
      },
    },
  } as const),
);

const tests = testCatalogue(catalogue);
const buyer = { kind: 'buyer', id: 'b-1' };
const placed: GivenEvent<typeof catalogue> = {
  type: 'order.placed',
  aggregateId: '7',
  data: { items: 2, buyer: buyer.id, name: 'Ada' },
};

async function append(keyring = testKeyring(), tx = testTransaction()) {
  const writer = await createOutbox({ catalogue, keyring }).prepare({ subjects: [buyer] });
  const answers = await writer.append(tx, [
    { type: 'order.placed', aggregate: { type: 'order', id: '7' }, data: placed.data },
  ]);
  return { tx, answers, keyring };
}

describe('a transaction for tests', () => {
  it('tells which events were appended, and numbers them by their aggregate', async () => {
    const { tx, answers, keyring } = await append();
    const again = await append(keyring, tx);
    expect(tx.appended).toMatchObject([
      { type: 'order.placed', schemaVersion: 1, aggregate: { type: 'order', id: '7' }, data: { items: 2 } },
      { id: again.answers[0]?.id },
    ]);
    expect([answers, again.answers].flat().map(({ sequence }) => sequence)).toEqual([1n, 2n]);
    expect(tx.statements).toEqual([]);
  });

  it('shows what was stored: sealed, and opened where a keyring is given', async () => {
    const { tx, keyring } = await append();
    expect(JSON.stringify(tx.appended)).not.toContain('Ada');
    expect(await tests.open(keyring, tx.appended)).toMatchObject([{ data: placed.data }]);
  });

  it('goes around another one: that carries everything out', async () => {
    const texts: string[] = [];
    const on = {
      query: async (text: string, values: readonly unknown[] = []) => {
        texts.push(text);
        const [first] = text.includes('append') ? (JSON.parse(String(values[0])) as { id: string }[]) : [];
        return { rows: [{ id: first?.id, sequence: '41' }], rowCount: 1 };
      },
    };
    const tx = testTransaction({ on });
    await tx.query('insert into orders values ($1)', [7]);
    const { answers } = await append(testKeyring(), tx);
    expect(answers).toMatchObject([{ sequence: 41n }]);
    expect(tx.statements).toEqual([{ text: 'insert into orders values ($1)', values: [7] }]);
    expect(texts).toHaveLength(2);
    expect(tx.appended).toHaveLength(1);
  });
});

describe('a keyring for tests', () => {
  it('forgets a person', async () => {
    const { tx, keyring } = await append();
    keyring.erase({ kind: 'buyer', id: 'B-1' });
    const [event] = await tests.open(keyring.another(), tx.appended);
    expect(isErased((event!.data as { name: unknown }).name)).toBe(true);
  });

  it('keeps closed what is of a class that it was not given', async () => {
    const keyring = testKeyring({ classes: ['tax'] });
    await expect(append(keyring)).rejects.toMatchObject({ code: 'SEALING_DENIED' });
  });
});

describe('running a handler', () => {
  const handlers: Handlers<typeof catalogue> = {
    'order.placed': handlerSteps({
      before: async (_event, { once }) =>
        once('label', async () => ({ id: 'never called', secret: 's' }), {
          unanswered: 'retry',
          toRecord: ({ id }) => id,
        }),
      handle: async (event, { tx, before: label }) => {
        await tx.query('insert into parcel values ($1, $2, $3)', [event.aggregateId, event.data.items, label]);
      },
    }),
  };

  it('shows its statements and the calls that it asked for', async () => {
    const { tx, called } = await tests.run(handlers, placed, { calls: { label: { id: 'l-1' } } });
    expect(tx.statements).toEqual([{ text: 'insert into parcel values ($1, $2, $3)', values: ['7', 2, 'l-1'] }]);
    expect(called).toEqual(['label']);
  });

  it('gives one that takes many events a list of one', async () => {
    const many: Handlers<typeof catalogue> = {
      'order.placed': {
        handleMany: async (events, { tx }) => {
          await tx.query('insert into parcel values ($1)', [events.map(({ aggregateId }) => aggregateId)]);
        },
      },
    };
    const { tx } = await tests.run(many, placed);
    expect(tx.statements).toEqual([{ text: 'insert into parcel values ($1)', values: [['7']] }]);
  });

  it('lets through what a call throws, and refuses one that the test did not expect', async () => {
    const down = new Error('down');
    await expect(tests.run(handlers, placed, { calls: { label: down } })).rejects.toBe(down);
    await expect(tests.run(handlers, placed)).rejects.toMatchObject({
      code: 'CALL_NOT_EXPECTED',
    });
  });

  it('refuses events that no consumer would ever get, naming the rule and no value', async () => {
    const wrong = { ...placed, data: { ...placed.data, items: 0 } };
    const refused = tests.run(handlers, wrong);
    await expect(refused).rejects.toMatchObject({ code: 'EVENT_DATA_INVALID', message: /data\/items/ });
    await expect(refused).rejects.not.toThrow(/Ada/);
    expect(() => tests.received({ ...placed, type: 'order.lost' as never })).toThrow(/no event type/);
    await expect(tests.run({}, placed)).rejects.toMatchObject({
      code: 'HANDLER_MISSING',
    });
  });
});

it('a batch for tests holds the envelopes that the relay makes', () => {
  const { Records } = tests.batch([placed, { ...placed, sequence: 2n }]);
  expect(Records.map(({ body }) => parseEnvelope(body))).toMatchObject([
    { ok: true, event: { type: 'order.placed', aggregateId: '7', sequence: 1n, data: { items: 2 } } },
    { ok: true, event: { sequence: 2n } },
  ]);
});
