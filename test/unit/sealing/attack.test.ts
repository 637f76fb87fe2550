import { describe, expect, it } from 'vitest';
import {
  neededKeys,
  openData,
  type OpeningKeys,
  openValue,
  parseSealed,
  sealData,
  type SealingKeys,
  sealingPlan,
  sealValue,
  type SubjectKey,
} from '../../../shared/sealing/index.ts';
import { MAX_JSON_BYTES } from '../../../shared/sealing/plaintext.ts';
import { codeOf, EVENT, testKey } from '../../support/sealing.ts';
import { runMoves } from '../../support/sealing-moves.ts';

it('case 40: a thousand values moved between fields, items, events, rows, aggregates, classes and versions: none opens', () => {
  const { unmoved = 0, ...outcomes } = runMoves(1, 1_000);
  expect(unmoved).toBeLessThan(100);
  expect(Object.keys(outcomes).toSorted()).toEqual([
    'SEALING_KEY_UNKNOWN',
    'SEALING_MALFORMED',
    'SEALING_TAMPERED',
    'closed',
  ]);
});

describe('like case 43: odd data, at places that a schema marks with one line', () => {
  const plan = sealingPlan(
    {
      type: 'object',
      required: ['id'],
      properties: { id: { type: 'string' }, list: { type: 'array', items: { 'x-gdpr-sensitive': true } } },
      additionalProperties: { 'x-gdpr-sensitive': true },
    },
    { class: 'contact', subject: { kind: 'customer', id: '/id' } },
  )!;
  const made = new Map<string, SubjectKey>();
  const sealing: SealingKeys = (className, subject) => {
    const key = testKey(subject.id, { class: className });
    made.set(key.keyId, key);
    return key;
  };
  const opening: OpeningKeys = ({ keyId }) => made.get(keyId);
  const wireOf = (data: unknown): object => sealData(data, plan, sealing, EVENT) as object;
  const through = (data: unknown): unknown => openData(wireOf(data), plan, opening, EVENT);

  it('names that mean something to JavaScript or to a pointer', () => {
    const names = [
      '__proto__',
      'constructor',
      'prototype',
      'toString',
      'hasOwnProperty',
      '~',
      '/',
      '~0',
      '~1',
      'a/b~c',
      '',
      ' ',
      'İ',
      '\u0000',
      '0',
      'length',
    ];
    const json = `{"id":"C-1",${names.map((name) => `${JSON.stringify(name)}:"canary"`).join(',')}}`;
    const data = JSON.parse(json) as object;
    const wire = wireOf(data);
    expect(JSON.stringify(wire)).not.toContain('canary');
    expect(Object.getPrototypeOf(wire)).toBe(Object.prototype);
    const opened = through(data);
    expect(JSON.stringify(opened)).toBe(JSON.stringify(data));
    expect(Object.getPrototypeOf(opened)).toBe(Object.prototype);
    expect(({} as { canary?: unknown }).canary).toBeUndefined();
  });

  it('names that only differ in how a pointer writes them are other places', () => {
    const wire = wireOf({ id: 'C-1', 'a/b': 'x', 'a~1b': 'y', '~': 'z', '~0': 'w' }) as Record<string, string>;
    const swapped = { ...wire, 'a/b': wire['a~1b'], 'a~1b': wire['a/b'] };
    const tampered = { code: 'SEALING_TAMPERED', pointer: '/a~1b' };
    expect(() => openData(swapped, plan, opening, EVENT)).toThrow(expect.objectContaining(tampered));
    const tildes = { ...wire, '~': wire['~0'], '~0': wire['~'] };
    expect(codeOf(() => openData(tildes, plan, opening, EVENT))).toBe('SEALING_TAMPERED');
  });

  it('a hundred levels, and no more', () => {
    const nested = (levels: number): unknown => JSON.parse('{"a":'.repeat(levels) + '1' + '}'.repeat(levels));
    expect(through({ id: 'C-1', deep: nested(100) })).toEqual({ id: 'C-1', deep: nested(100) });
    expect(codeOf(() => wireOf({ id: 'C-1', deep: nested(101) }))).toBe('SEALING_REFUSED');
  });

  it('half a surrogate pair, in a value, a name, a name of a field or the id of the person', () => {
    const half = '\ud83d';
    expect(codeOf(() => wireOf({ id: 'C-1', name: half }))).toBe('SEALING_REFUSED');
    expect(codeOf(() => wireOf({ id: 'C-1', name: { [half]: 1 } }))).toBe('SEALING_REFUSED');
    expect(codeOf(() => wireOf({ id: 'C-1', [half]: 'x' }))).toBe('SEALING_MALFORMED');
    expect(codeOf(() => wireOf({ id: half, name: 'x' }))).toBe('SEALING_REFUSED');
  });

  it('numbers beyond 2^53, which JavaScript has already changed', () => {
    expect(codeOf(() => wireOf(JSON.parse('{"id":"C-1","n":9007199254740993}')))).toBe('SEALING_REFUSED');
    expect(codeOf(() => wireOf(JSON.parse('{"id":"C-1","n":[1e400]}')))).toBe('SEALING_REFUSED');
    const exact = {
      id: 'C-1',
      n: [Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 0.1, 5e-324],
      text: '9007199254740993',
    };
    expect(through(exact)).toEqual(exact);
  });

  it('UUIDs in upper case: one person, one event, one aggregate', () => {
    const id = '6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f';
    const twice = { id: 'C-1', list: ['x'] };
    const wire = sealData(twice, plan, sealing, {
      ...EVENT,
      aggregateId: id.toUpperCase(),
      eventId: EVENT.eventId.toUpperCase(),
    });
    expect(openData(wire, plan, opening, { ...EVENT, aggregateId: id })).toEqual(twice);
    const persons = [{ id }, { id: id.toUpperCase() }].map((it) =>
      neededKeys({ ...it, name: 'x' }, plan)[0]!.subject.id.toLowerCase(),
    );
    expect(new Set(persons).size).toBe(1);
  });

  it('ten thousand items, each opened once', () => {
    const list = Array.from({ length: 10_000 }, (_, index) => index);
    const wire = wireOf({ id: 'C-1', list: list.slice(0, 100) }) as { list: string[] };
    // Whatever the data: a key is asked for once for each sealed text, and an array is walked once.
    const many = { ...wire, list: list.map(() => 'erased.1') };
    let asked = 0;
    const counted =
      (keys: OpeningKeys): OpeningKeys =>
      (name) => {
        asked += 1;
        return keys(name);
      };
    const opened = openData(
      many,
      plan,
      counted(() => 'erased'),
      EVENT,
    ) as { list: unknown[] };
    expect(opened.list).toHaveLength(10_000);
    expect(asked).toBe(0);
    openData(wire, plan, counted(opening), EVENT);
    expect(asked).toBe(100);
  });
});

describe('like case 39: hostile lengths are refused before anything is decoded', () => {
  const key = testKey('one');
  const longest = sealValue('x'.repeat(MAX_JSON_BYTES - 2), key, EVENT);

  it('the longest value opens, and one character more is a limit', () => {
    expect(openValue(longest, key, EVENT)).toHaveLength(MAX_JSON_BYTES - 2);
    for (const more of [64, 1_000_000, 20_000_000]) {
      expect(codeOf(() => parseSealed(`${longest}${'A'.repeat(more)}`))).toBe('SEALING_LIMIT');
    }
  });

  it('nothing but the beginning of a text is looked at that is no sealed value', () => {
    expect(parseSealed('x'.repeat(50_000_000))).toBeNull();
    for (const part of ['.', 'a.', '1.', 'sealed.', '-', 'A']) {
      const text = `sealed.1.${part.repeat(100_000)}`;
      expect(['SEALING_MALFORMED', 'SEALING_LIMIT']).toContain(codeOf(() => parseSealed(text)));
    }
  });
});
