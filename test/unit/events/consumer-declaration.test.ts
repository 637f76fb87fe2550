import type pg from 'pg';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { checkConsumer, declareConsumer, defineCatalogue } from '../../../shared/events/index.ts';
import { eventConsumer, type HandlersOf } from '../../../shared/inbox/index.ts';
import { noMetrics, silentLog } from '../../../shared/telemetry/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';

const type = (aggregate: string, destinations: readonly ('some' | 'all')[]) =>
  ({ aggregate, versions: { 1: { type: 'object' } }, whenParked: 'block', destinations }) as const;

const definition = defineCatalogue({
  source: '/tests',
  destinations: { some: { kind: 'sqs-fifo', groupId: 'aggregate-id' }, all: { kind: 'sqs' } },
  events: { 'thing.made': type('thing', ['some', 'all']), 'thing.lost': type('thing', ['all']) },
});
const catalogue = compileCatalogue(definition);
const STRICT = { name: 'things', mode: 'strict', startingPoint: 'beginning', handles: ['thing.made'] } as const;

/** The text of what is thrown. */
function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    return (error as Error).message;
  }
  return 'not refused';
}

describe('a consumer that is declared', () => {
  it('case 59: is refused when it is strict and its destination lacks a type, in the words in which its function would be', () => {
    const declared = refusal(() => declareConsumer(definition, { ...STRICT, destination: 'some' }));
    expect(declared).toMatch(/^consumer things is strict, and thing\.lost of its aggregates is not routed to some/);
    const pool = { options: { max: 1 } } as pg.Pool;
    const parts = { catalogue, pool, log: silentLog, metrics: noMetrics, handlers: { 'thing.made': async () => {} } };
    expect(refusal(() => eventConsumer({ ...STRICT, destination: 'some', ...parts }))).toBe(declared);
  });

  it.each([
    ['a name that is none', { name: 'Things', mode: 'any', handles: [] }, /name "Things" must be/],
    ['a type of nobody', { name: 'a', mode: 'any', handles: ['thing.gone'] }, /handler for thing\.gone/],
    ['a destination of nobody', { ...STRICT, destination: 'gone' }, /no destination "gone"/],
  ])('is refused for %s', (_, declaration, message) => {
    expect(() => declareConsumer(definition, declaration as never)).toThrow(message);
    expect(() => checkConsumer(definition, declaration as never)).toThrow(
      expect.objectContaining({ code: 'CONSUMER_OPTIONS' }) as Error,
    );
  });

  it('is given back as it was written, and cannot change any more', () => {
    const things = declareConsumer(definition, { ...STRICT, destination: 'all' });
    expect(things).toEqual({ ...STRICT, destination: 'all' });
    expect(Object.isFrozen(things)).toBe(true);
    expectTypeOf(things.mode).toEqualTypeOf<'strict'>();
    // Without a handler for each declared type, or with others, it does not compile.
    expectTypeOf<keyof HandlersOf<typeof catalogue, typeof things>>().toEqualTypeOf<'thing.made'>();
    expectTypeOf<{ 'thing.lost': () => Promise<void> }>().not.toExtend<HandlersOf<typeof catalogue, typeof things>>();
  });
});

describe('the function of a declared consumer', () => {
  const things = declareConsumer(definition, { name: 'things', mode: 'any', handles: ['thing.made'] });
  const build = (handlers: object) => () =>
    eventConsumer({
      ...things,
      catalogue,
      handlers,
      pool: { options: { max: 1 } } as pg.Pool,
      log: silentLog,
      metrics: noMetrics,
    });

  it('has a handler for each type that was declared, and no other', () => {
    const handler = async (): Promise<void> => {};
    expect(build({ 'thing.made': handler })).not.toThrow();
    expect(build({})).toThrow(/not those that it declares: none for thing\.made/);
    expect(build({ 'thing.made': handler, 'thing.lost': handler })).toThrow(/one more for thing\.lost/);
  });
});
