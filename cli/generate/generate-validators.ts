import { readFile, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Catalogue, CatalogueError, catalogueSchemas } from '../../shared/events/index.ts';
import { compileSchemas } from './compile-schemas.ts';

/**
 * Writes the validators of `module` to `output` (a `.js` file) and their types beside it.
 *
 * The module exports `definition`, a catalogue; or `schemas`, a record of JSON Schemas (for the bodies of an API).
 *
 * @returns whether anything changed. Equal files keep their time, so that watchers and caches stay quiet.
 * @throws CatalogueError when the catalogue or one of its schemas is wrong.
 */
export async function generateValidators(module: string, output: string): Promise<boolean> {
  if (!output.endsWith('.js')) {
    throw new CatalogueError('CATALOGUE_SCHEMA', 'The output must be a .js file. Nothing was written.');
  }
  const exported = (await import(pathToFileURL(resolve(module)).href)) as {
    readonly definition?: Catalogue;
    readonly schemas?: Readonly<Record<string, object>>;
  };
  const schemas = exported.definition === undefined ? exported.schemas : catalogueSchemas(exported.definition);
  if (schemas === undefined) {
    throw new CatalogueError(
      'CATALOGUE_SCHEMA',
      `${module} exports neither 'definition' (a catalogue) nor 'schemas'. Nothing was written.`,
    );
  }
  const { javascript, declarations } = await compileSchemas(schemas, {
    allErrors: exported.definition === undefined,
    madeFrom: module,
  });
  const changed = await Promise.all([
    writeIfChanged(output, javascript),
    writeIfChanged(output.replace(/\.js$/, '.d.ts'), declarations),
  ]);
  return changed.includes(true);
}

async function writeIfChanged(file: string, text: string): Promise<boolean> {
  const before = await readFile(file, 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  });
  if (before === text) return false;
  await writeFile(file, text);
  return true;
}

/** Where the validators of a definition stand by default. */
export function defaultOutput(module: string): string {
  return resolve(dirname(module), 'validators.generated.js');
}
