import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, posix, sep } from 'node:path';
import { runChild } from '../child.ts';
import { DOORS } from './doors.ts';

/** Types of packages that are bundled in: their own declarations go along. */
const CARRIED: Readonly<Record<string, string>> = { '@middy/core': 'node_modules/@middy/core/index.d.ts' };

/** Where the declarations of a door lie below `esm/` and `cjs/`. */
export function declarationOf(file: string): string {
  return `types/${file.replace(/\.ts$/, '.d.ts')}`;
}

/**
 * Writes `esm/types/` and `cjs/types/`: the same declarations twice, because TypeScript takes the kind of a module from the `package.json` above it.
 *
 * @throws Error with the compiler's output
 */
export async function buildDeclarations(root: string, output: string): Promise<void> {
  const types = join(output, 'esm', 'types');
  const cache = join(root, '.cache');
  mkdirSync(cache, { recursive: true });
  const config = join(cache, 'package-types.json');
  const compilerOptions = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    rewriteRelativeImportExtensions: true,
    rootDir: root,
    outDir: types,
  };
  const files = Object.values(DOORS).map((file) => join(root, file));
  writeFileSync(config, JSON.stringify({ extends: '../tsconfig.base.json', compilerOptions, files }));
  const { code, output: said } = await runChild(join(root, 'node_modules/.bin/tsc'), ['-p', config], { quiet: true });
  if (code !== 0) throw new Error(`The declarations were not made.\n${said.trim()}`);
  for (const [name, file] of Object.entries(CARRIED)) {
    const copy = join(types, 'carried', `${name}.d.ts`);
    mkdirSync(dirname(copy), { recursive: true });
    writeFileSync(copy, withoutUnneeded(readFileSync(join(root, file), 'utf8')));
  }
  for (const path of readdirSync(types, { recursive: true, encoding: 'utf8' })) {
    if (path.endsWith('.d.ts')) rewrite(types, path.split(sep).join('/'));
  }
  cpSync(types, join(output, 'cjs', 'types'), { recursive: true });
}

/** middy's types of a kind of Lambda that is not ours would bring an SDK of their own. */
function withoutUnneeded(text: string): string {
  return text.replace(
    /^import type \{ DurableContext as LambdaContextDurable \} from .*$/m,
    'type LambdaContextDurable = never;',
  );
}

function rewrite(types: string, path: string): void {
  const file = join(types, path);
  const text = readFileSync(file, 'utf8').replaceAll(
    /((?:from|import)\s*\(?\s*)(["'])([^"']+)\2/g,
    (_, before: string, quote: string, specifier: string) => `${before}${quote}${target(path, specifier)}${quote}`,
  );
  writeFileSync(file, text);
}

function target(path: string, specifier: string): string {
  if (specifier.startsWith('.')) return specifier.replace(/\.ts$/, '.js');
  if (!(specifier in CARRIED)) return specifier;
  const to = posix.relative(posix.dirname(path), `carried/${specifier}.js`);
  return to.startsWith('.') ? to : `./${to}`;
}
