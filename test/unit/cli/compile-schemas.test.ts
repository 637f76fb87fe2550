import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compileSchemas } from '../../../cli/generate/compile-schemas.ts';
import { defaultOutput, generateValidators } from '../../../cli/generate/generate-validators.ts';
import type { GeneratedValidators } from '../../../shared/events/index.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'validators-'));
});
afterAll(() => rm(directory, { recursive: true }));

const options = { allErrors: false, madeFrom: 'here.ts' };
const codeOf = (schema: object) =>
  compileSchemas({ x: schema }, options).then(
    () => 'compiled',
    (error: unknown) => (error as { code?: unknown }).code,
  );

describe('compileSchemas', () => {
  it('keeps its names apart from those of ajv, however many schemas there are', async () => {
    const many = Object.fromEntries(
      Array.from({ length: 30 }, (_, index) => [`t/${index}`, { type: 'integer', maximum: index }]),
    );
    const file = join(directory, 'many.generated.js');
    await writeFile(file, (await compileSchemas(many, options)).javascript);
    const { validators } = (await import(file)) as GeneratedValidators;
    for (const [key, { maximum }] of Object.entries(many)) {
      expect([validators[key]?.(maximum), validators[key]?.(maximum + 1)]).toEqual([true, false]);
    }
  });

  it('writes a module that Node loads without ajv', async () => {
    const { javascript } = await compileSchemas(
      {
        'a.b/1': {
          type: 'object',
          properties: { on: { type: 'string', format: 'date' }, name: { type: 'string', maxLength: 1 } },
        },
        'a.b/2': { type: 'object', properties: { tags: { type: 'array', uniqueItems: true } } },
      },
      options,
    );
    // What ajv itself would have brought in.
    expect(javascript).not.toMatch(/^import |[^_]require\("(?!ajv\/dist\/runtime)/m);
    expect(javascript).not.toContain('addVocabulary');
    const file = join(directory, 'a.generated.js');
    await writeFile(file, javascript);
    const { validators, fingerprint } = (await import(file)) as GeneratedValidators;
    expect(fingerprint).toMatch(/^[0-9a-f]{64}$/);
    expect(Object.keys(validators)).toEqual(['a.b/1', 'a.b/2']);
    expect(validators['a.b/1']?.({ on: '2024-02-29', name: '👩' })).toBe(true);
    expect(validators['a.b/1']?.({ on: '2023-02-29' })).toBe(false);
    expect(validators['a.b/2']?.({ tags: [{ a: 1 }, { a: 1 }] })).toBe(false);
  });

  it('knows the mark of sensitive fields', async () => {
    expect(await codeOf({ type: 'object', properties: { a: { type: 'string', 'x-gdpr-sensitive': true } } })).toBe(
      'compiled',
    );
  });

  it.each<[string, object]>([
    ['a misspelt keyword', { type: 'object', propertys: {} }],
    ['an unknown format', { type: 'object', properties: { a: { type: 'string', format: 'dates' } } }],
    ['a required field that is not described', { type: 'object', required: ['a'], properties: {} }],
    ['a keyword that does not fit the type', { type: 'object', properties: { a: { type: 'string', minimum: 1 } } }],
    ['a reference to nothing', { type: 'object', properties: { a: { $ref: '#/$defs/none' } } }],
    ['a pattern that is no expression', { type: 'object', properties: { a: { type: 'string', pattern: '(' } } }],
  ])('refuses %s', async (_, schema) => {
    expect(await codeOf(schema)).toBe('CATALOGUE_SCHEMA');
  });

  it('names the schema that does not compile', async () => {
    await expect(compileSchemas({ 'a.b/7': { type: 'objekt' } }, options)).rejects.toThrow('a.b/7');
  });
});

describe('generateValidators', () => {
  it('writes module and types beside the definition, and leaves equal files alone', async () => {
    const module = join(directory, 'schemas.mjs');
    await writeFile(module, 'export const schemas = { one: { type: "object" } };');
    const output = defaultOutput(module);
    expect(await generateValidators(module, output)).toBe(true);
    expect(await readFile(join(directory, 'validators.generated.d.ts'), 'utf8')).toContain('readonly "one": Validate;');
    const before = await stat(output);
    expect(await generateValidators(module, output)).toBe(false);
    expect((await stat(output)).mtimeMs).toBe(before.mtimeMs);
  });

  it('refuses a module without schemas', async () => {
    const module = join(directory, 'nothing.mjs');
    await writeFile(module, 'export const nothing = 1;');
    await expect(generateValidators(module, defaultOutput(module))).rejects.toThrow('exports neither');
  });
});
