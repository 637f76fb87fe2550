import type { SQSEvent } from 'aws-lambda';
import type pg from 'pg';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { type ConsumedEvent, eventConsumer, type Handlers, handlerSteps } from '../../../shared/inbox/index.ts';
import { defineCatalogue } from '../../../shared/events/index.ts';
import { noMetrics, silentLog } from '../../../shared/telemetry/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';
import { counterCatalogue } from '../../support/counter-events.ts';
import { contextFor, fifoRecord } from '../../support/sqs-batch.ts';

const type = (aggregate: string, destinations: readonly ('some' | 'all' | 'none')[]) =>
  ({ aggregate, versions: { 1: { type: 'object' } }, whenParked: 'block', destinations }) as const;

/** A pool that must not be touched. */
const pool = { options: { max: 1 } } as pg.Pool;
const base = { catalogue: counterCatalogue, pool, log: silentLog, metrics: noMetrics, handlers: {} } as const;

describe('eventConsumer', () => {
  it.each(['', 'Ledger', '9ledger', 'a'.repeat(64), 'led ger'])('refuses the name %j when the module loads', (name) => {
    expect(() => eventConsumer({ ...base, name, mode: 'any' })).toThrow(
      expect.objectContaining({ code: 'CONSUMER_OPTIONS' }) as Error,
    );
  });

  it('refuses a handler for a type that its catalogue does not hold', () => {
    const handlers = { 'counter.gone': async () => {} };
    expect(() => eventConsumer({ ...base, name: 'ledger', mode: 'any', handlers } as never)).toThrow(
      /handler for counter\.gone/,
    );
  });

  it.each(['attempts', 'windowDays', 'together'])('refuses %s that is no whole number from 1', (option) => {
    for (const value of [0, -1, 1.5, Number.NaN]) {
      expect(() => eventConsumer({ ...base, name: 'ledger', mode: 'any', [option]: value })).toThrow(
        expect.objectContaining({ code: 'CONSUMER_OPTIONS' }) as Error,
      );
    }
  });

  it('refuses a window of more than a hundred years, which is no date any more', () => {
    const built = (windowDays: number) => eventConsumer({ ...base, name: 'ledger', mode: 'any', windowDays });
    expect(() => built(36_501)).toThrow(expect.objectContaining({ code: 'CONSUMER_OPTIONS' }) as Error);
    expect(() => built(36_500)).not.toThrow();
  });

  it('case 59: refuses a strict consumer whose destination does not get every type of an aggregate that it handles', () => {
    const definition = defineCatalogue({
      source: '/tests',
      destinations: {
        some: { kind: 'sqs-fifo', groupId: 'aggregate-id' },
        all: { kind: 'sqs' },
        none: { kind: 'sqs' },
      },
      events: {
        'thing.made': type('thing', ['some', 'all']),
        'thing.lost': type('thing', ['all']),
        'other.made': type('other', []),
      },
    });
    const catalogue = compileCatalogue(definition);
    const strict = { ...base, catalogue, name: 'things', mode: 'strict', startingPoint: 'beginning' } as const;
    const handlers = { 'thing.made': async () => {} };
    expect(() => eventConsumer({ ...strict, handlers, destination: 'some' })).toThrow(
      /thing\.lost .* not routed to some/,
    );
    expect(() => eventConsumer({ ...strict, handlers, destination: 'none' })).toThrow(/thing\.made, thing\.lost/);
    expect(() => eventConsumer({ ...strict, handlers, destination: 'gone' as 'all' })).toThrow(/no destination "gone"/);
    expect(() => eventConsumer({ ...strict, handlers, destination: 'all' })).not.toThrow();
    // Modes that need no order may miss what they like.
    for (const mode of ['any', 'latest'] as const) {
      expect(() => eventConsumer({ ...base, catalogue, name: 'things', mode, handlers })).not.toThrow();
    }
  });

  it.each([
    ['nothing', undefined],
    ['an object without records', {}],
    ['a record without an id', { Records: [{ ...fifoRecord('a', '{}'), messageId: '' }] }],
    ['a record without a body', { Records: [{ ...fifoRecord('a', '{}'), body: undefined }] }],
  ])('rejects as a whole when it is invoked with %s: an empty id would mean the same', async (_what, event) => {
    const handler = eventConsumer({ ...base, name: 'ledger', mode: 'any' });
    await expect(handler(event as unknown as SQSEvent, contextFor(1_000))).rejects.toMatchObject({
      code: 'NOT_A_BATCH',
    });
  });

  it('types the data of each event from its schema', () => {
    type Added = ConsumedEvent<typeof counterCatalogue, 'counter.added'>;
    expectTypeOf<Added['data']['amount']>().toEqualTypeOf<number>();
    expectTypeOf<Added['type']>().toEqualTypeOf<'counter.added'>();
    expectTypeOf<Added['sequence']>().toEqualTypeOf<bigint>();
    eventConsumer({
      ...base,
      name: 'ledger',
      mode: 'strict',
      startingPoint: 'beginning',
      destination: 'all',
      handlers: {
        'counter.added': async (event) => {
          expectTypeOf(event.data.amount).toEqualTypeOf<number>();
          // @ts-expect-error the schema has no such field
          void event.data.amount.amuont;
        },
      },
    });
    const handlers: Handlers<typeof counterCatalogue> = {
      'counter.added': handlerSteps({
        before: async (event) => ({ twice: event.data.amount * 2 }),
        handle: async (event, { before }) => {
          expectTypeOf(event.sequence).toEqualTypeOf<bigint>();
          expectTypeOf(before).toEqualTypeOf<{ twice: number }>();
        },
        whenFailing: 'skip',
      }),
      'counter.renamed': { handle: async (_event, { before }) => void expectTypeOf(before).toEqualTypeOf<unknown>() },
    };
    eventConsumer({ ...base, name: 'mailer', mode: 'any', handlers });
    // @ts-expect-error the catalogue has no such type
    void (() => eventConsumer({ ...base, name: 'ledger', mode: 'any', handlers: { 'counter.gone': async () => {} } }));
    // @ts-expect-error a strict consumer must say where it starts
    void (() => eventConsumer({ ...base, name: 'ledger', mode: 'strict' }));
  });
});
