import { inspect } from 'node:util';
import { describe, expect, expectTypeOf, it, test } from 'vitest';
import {
  isErased,
  isSealed,
  neededKeys,
  openData,
  type OpeningKeys,
  Sealed,
  sealData,
  sealedText,
  sealedWith,
  type SealingKeys,
  sealingPlan,
  type Subject,
  type SubjectKey,
} from '../../../shared/sealing/index.ts';
import { codeOf, EVENT, testKey } from '../../support/sealing.ts';

const text = { type: 'string' };
const schema = {
  type: 'object',
  additionalProperties: false,
  required: ['customerId', 'lines', 'clerk'],
  properties: {
    customerId: text,
    total: { type: 'integer' },
    name: { type: 'string', 'x-gdpr-sensitive': { erasedValue: '(erased)' } },
    taxId: { type: ['string', 'null'], 'x-gdpr-sensitive': { class: 'tax' } },
    clerk: {
      type: 'object',
      additionalProperties: false,
      required: ['kind', 'id'],
      properties: { kind: text, id: text, name: { 'x-gdpr-sensitive': { class: 'staff', subject: '/clerk' } } },
    },
    lines: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['personId'],
        properties: {
          personId: text,
          note: { 'x-gdpr-sensitive': { subject: { kind: 'person', id: '1/personId' } } },
        },
      },
    },
  },
};
const plan = sealingPlan(schema, { class: 'contact', subject: { kind: 'customer', id: '/customerId' } })!;

const nameOf = (className: string, { kind, id }: Subject): string => `${className} ${kind} ${id}`;
const made = new Map<string, SubjectKey>();
const keyFor: SealingKeys = (className, subject) => {
  const name = nameOf(className, subject);
  const key = made.get(name) ?? testKey(name, { class: className });
  made.set(name, key);
  return key;
};
const data = {
  customerId: 'K-1',
  total: 7,
  name: 'Ada',
  taxId: '123',
  clerk: { kind: 'staff', id: 'S-1', name: { first: 'Bo' } },
  lines: [{ personId: 'P-1', note: 'one' }, { personId: 'P-2', note: ['two'] }, { personId: 'P-2' }],
};
const all: OpeningKeys = (name) => {
  const subjects: [string, Subject][] = [
    ['contact', { kind: 'customer', id: 'K-1' }],
    ['tax', { kind: 'customer', id: 'K-1' }],
    ['staff', { kind: 'staff', id: 'S-1' }],
    ['contact', { kind: 'person', id: 'P-1' }],
    ['contact', { kind: 'person', id: 'P-2' }],
  ];
  return subjects.map((it) => keyFor(...it)).find((key) => typeof key === 'object' && key.keyId === name.keyId);
};
const wire = sealData(data, plan, keyFor, EVENT) as typeof data;
const without = (wanted: string, answer: 'erased' | 'denied' | undefined): OpeningKeys => {
  return (name) => (name.class === wanted ? answer : all(name));
};

describe('data goes through sealing and comes back', () => {
  it('with each value of each person as it was', () => {
    expect(openData(wire, plan, all, EVENT)).toStrictEqual(data);
  });

  it('leaves what is not marked in clear, and the original as it was', () => {
    expect(wire).toMatchObject({ customerId: 'K-1', total: 7, clerk: { kind: 'staff', id: 'S-1' } });
    expect(data.name).toBe('Ada');
    expect(JSON.stringify(wire)).not.toMatch(/"(?:Ada|123|Bo|one|two)"/);
  });

  it('names the keys that it will need, each once', () => {
    const subjects = neededKeys(data, plan).map((it) => nameOf(it.class, it.subject));
    expect(subjects).toEqual([
      'contact customer K-1',
      'tax customer K-1',
      'staff staff S-1',
      'contact person P-1',
      'contact person P-2',
    ]);
    expect(
      sealedWith(wire, plan)
        .map((name) => name.keyId)
        .toSorted(),
    ).toEqual(
      neededKeys(data, plan)
        .map((it) => testKey(nameOf(it.class, it.subject)).keyId)
        .toSorted(),
    );
  });

  it('case 42: absent, null and "" stay apart', () => {
    const { name: _, ...rest } = data;
    const open = (input: object): object => openData(sealData(input, plan, keyFor, EVENT), plan, all, EVENT) as object;
    expect(open({ ...rest, taxId: null })).toStrictEqual({ ...rest, taxId: null });
    expect(open({ ...rest, taxId: '' })).toStrictEqual({ ...rest, taxId: '' });
    expect((sealData({ ...rest, taxId: '' }, plan, keyFor, EVENT) as typeof data).taxId).toMatch(/^sealed\.1\.tax\./);
    const { taxId: __, ...neither } = rest;
    expect(open(neither)).toStrictEqual(neither);
  });

  it('case 42: what is sealed is not sealed again, and says where', () => {
    expect(() => sealData(wire, plan, keyFor, EVENT)).toThrow(
      expect.objectContaining({ code: 'SEALING_REFUSED', pointer: '/name' }),
    );
  });

  it('case 42: clear text at a marked place is refused, without its value', () => {
    const opened = (): unknown => openData({ ...wire, name: 'clear secret' }, plan, all, EVENT);
    expect(opened).toThrow(
      expect.objectContaining({
        code: 'SEALING_MALFORMED',
        pointer: '/name',
        message: expect.not.stringContaining('secret'),
      }),
    );
    for (const clear of [0, false, {}, [], 'sealed.1.x']) {
      expect(codeOf(() => openData({ ...wire, name: clear }, plan, all, EVENT))).toBe('SEALING_MALFORMED');
    }
  });

  it('like case 42: a text that only looks sealed is clear: it is sealed itself, and refused where it came without being sealed', () => {
    for (const name of ['sealed.1.contact', 'sealed.', 'sealed.2.x', 'erased.1 ', 'Sealed.1.']) {
      const sealed = sealData({ ...data, name }, plan, keyFor, EVENT) as typeof data;
      expect((openData(sealed, plan, all, EVENT) as typeof data).name).toBe(name);
      expect(codeOf(() => openData({ ...wire, name }, plan, all, EVENT))).toBe('SEALING_MALFORMED');
    }
  });

  it('case 40: a value moved to another item or field does not open', () => {
    const [first, second] = wire.lines;
    const moved = {
      ...wire,
      lines: [
        { ...first!, note: second!.note },
        { ...second!, note: first!.note },
      ],
    };
    expect(codeOf(() => openData(moved, plan, all, EVENT))).toBe('SEALING_TAMPERED');
    expect(codeOf(() => openData({ ...wire, name: first!.note }, plan, all, EVENT))).toBe('SEALING_TAMPERED');
  });

  it('like case 40: a value of another class does not pass, whoever may open it', () => {
    expect(codeOf(() => openData({ ...wire, name: wire.taxId }, plan, all, EVENT))).toBe('SEALING_MALFORMED');
  });

  it('is sealed anew each time', () => {
    expect((sealData(data, plan, keyFor, EVENT) as typeof data).name).not.toBe(wire.name);
  });

  it('10,000 items, each sealed for itself', () => {
    const lines = Array.from({ length: 10_000 }, (_, index) => ({ personId: 'P-1', note: index }));
    const many = { ...data, lines };
    expect(openData(sealData(many, plan, keyFor, EVENT), plan, all, EVENT)).toStrictEqual(many);
  });

  it('data deeper than anything designed is refused before the stack ends', () => {
    const recursive = {
      type: 'object',
      additionalProperties: false,
      required: ['id'],
      properties: {
        id: text,
        next: { $ref: '#' },
        name: { 'x-gdpr-sensitive': { class: 'c', subject: { kind: 'k', id: '1/id' } } },
      },
    };
    let deep: object = { id: 'x' };
    for (let level = 0; level < 100_000; level += 1) deep = { id: 'x', next: deep };
    expect(codeOf(() => openData(deep, sealingPlan(recursive)!, all, EVENT))).toBe('SEALING_LIMIT');
  });
});

describe('keys that are not there', () => {
  it('were not prepared: nothing is sealed', () => {
    expect(codeOf(() => sealData(data, plan, () => undefined, EVENT))).toBe('KEYS_NOT_PREPARED');
  });

  it('a person without an id owns nothing', () => {
    for (const customerId of ['', 7, undefined, 'x'.repeat(201), '\ud800']) {
      expect(codeOf(() => sealData({ ...data, customerId }, plan, keyFor, EVENT))).toBe('SEALING_REFUSED');
    }
  });

  it('do not exist: an error that names the place', () => {
    expect(() => openData(wire, plan, without('staff', undefined), EVENT)).toThrow(
      expect.objectContaining({ code: 'SEALING_KEY_UNKNOWN', pointer: '/clerk/name' }),
    );
  });

  it('this reader may not have: the value stays sealed and the rest opens', () => {
    const opened = openData(wire, plan, without('tax', 'denied'), EVENT) as typeof data;
    expect(opened.name).toBe('Ada');
    expect(isSealed(opened.taxId)).toBe(true);
    expect(isErased(opened.taxId)).toBe(false);
    expect(sealedText(opened.taxId as unknown as Sealed)).toBe(wire.taxId);
  });

  it('case 48: of an erased person: what the mark declares, else a closed value', () => {
    const opened = openData(
      wire,
      plan,
      (name) => (name.class === 'staff' ? all(name) : 'erased'),
      EVENT,
    ) as typeof data;
    expect(opened.name).toBe('(erased)');
    expect(isErased(opened.taxId)).toBe(true);
    expect(opened.clerk).toStrictEqual(data.clerk);
  });

  it('case 48: later events about an erased person carry the mark of it, and read so', () => {
    const erased: SealingKeys = (className, subject) =>
      subject.kind === 'customer' ? 'erased' : keyFor(className, subject);
    const later = sealData(data, plan, erased, EVENT) as typeof data;
    expect(later).toMatchObject({ name: 'erased.1', taxId: 'erased.1' });
    expect(openData(later, plan, all, EVENT)).toMatchObject({ name: '(erased)', lines: data.lines });
  });

  it('case 49: two persons in one event, one of them erased: the values of the other open', () => {
    const gone = testKey(nameOf('contact', { kind: 'person', id: 'P-2' })).keyId;
    const opened = openData(wire, plan, (name) => (name.keyId === gone ? 'erased' : all(name)), EVENT) as typeof data;
    expect(opened.lines[0]).toStrictEqual(data.lines[0]);
    expect(isErased(opened.lines[1]!.note)).toBe(true);
  });

  it('like case 49: one class of one person erased, the other not', () => {
    const opened = openData(wire, plan, without('tax', 'erased'), EVENT) as typeof data;
    expect(isErased(opened.taxId)).toBe(true);
    expect(opened.name).toBe('Ada');
  });
});

describe('a value that stays sealed', () => {
  const sealed = new Sealed<string>('sealed.1.secret', 'denied');

  test.each<[string, () => unknown]>([
    ['as a text', () => String(sealed)],
    ['in a template', () => `a ${sealed as unknown as string}`],
    ['by joining', () => ['a', sealed].join(',')],
    ['as a number', () => Number(sealed)],
    ['by comparing', () => (sealed as unknown as string) > 'a'],
    ['by loose equality', () => (sealed as unknown) == 'x'], // oxlint-disable-line eqeqeq
    ['as JSON', () => JSON.stringify({ sealed })],
    ['by adding', () => (sealed as unknown as string) + 'x'],
  ])('cannot be used %s', (_, use) => {
    expect(codeOf(use)).toBe('SEALED_VALUE_USED');
  });

  it('shows a placeholder to who looks at it, however closely', () => {
    for (const options of [{}, { depth: 9, showHidden: true, getters: true }]) {
      expect(inspect({ sealed }, options)).toContain('[Sealed: denied]');
      expect(inspect({ sealed }, options)).not.toContain('secret');
    }
    expect(Reflect.ownKeys(sealed)).toEqual([]);
    expect(JSON.stringify(structuredClone(sealed))).not.toContain('secret');
  });

  it('keeps the type of what it holds apart', () => {
    expectTypeOf<Sealed<string>>().not.toEqualTypeOf<Sealed<number>>();
    expect(isSealed(sealed)).toBe(true);
    expect(isSealed('sealed.1.secret')).toBe(false);
  });
});
