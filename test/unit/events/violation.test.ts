import { describe, expect, it } from 'vitest';
import { createAjv } from '../../../cli/generate/compile-schemas.ts';
import { pointerToPath, violations } from '../../../shared/events/index.ts';

const validate = createAjv({ allErrors: true }).compile({
  type: 'object',
  additionalProperties: false,
  required: ['a/b'],
  properties: {
    'a/b': { type: 'integer' },
    kind: { enum: ['x', 'y'] },
    list: { type: 'array', items: { type: 'string', maxLength: 2 } },
  },
});

describe('violations', () => {
  it('finds none in valid data', () => {
    expect(violations(validate, { 'a/b': 1, kind: 'x' })).toEqual([]);
  });

  it('points to missing, unknown and wrong fields without their values', () => {
    const found = violations(validate, { kind: 'secret', list: ['ok', 'secret'], 'no~w': 'secret' });
    expect(found).toEqual(
      expect.arrayContaining([
        { pointer: '/a~1b', detail: 'is required' },
        { pointer: '/no~0w', detail: 'is not a known field' },
        { pointer: '/kind', detail: 'must be one of the allowed values: "x", "y"' },
        { pointer: '/list/1', detail: 'must NOT have more than 2 characters' },
      ]),
    );
    expect(JSON.stringify(found)).not.toContain('secret');
  });

  it('stops at the limit', () => {
    expect(violations(validate, { list: Array.from({ length: 100 }, () => 'long') }, 3)).toHaveLength(3);
  });
});

describe('pointerToPath', () => {
  it.each([
    ['', ''],
    ['/a', '.a'],
    ['/lines/0/unitPriceMinor', '.lines[0].unitPriceMinor'],
    ['/unit price/a~1b~0c', '["unit price"]["a/b~c"]'],
    ['/01', '["01"]'],
  ])('writes %j as %j', (pointer, path) => {
    expect(pointerToPath(pointer)).toBe(path);
  });
});
