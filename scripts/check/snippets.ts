import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { DOORS } from '../package/doors.ts';

export interface Snippet {
  readonly document: string;
  /** Line of the first line of code. */
  readonly line: number;
  readonly code: string;
}

/** The fenced `ts` blocks of a document. Each is a module of its own and must compile as a reader would paste it. */
export function snippetsOf(document: string, text: string): Snippet[] {
  const snippets: Snippet[] = [];
  let open: { line: number; code: string[] } | null = null;
  for (const [index, line] of text.split('\n').entries()) {
    if (open === null) {
      if (/^```ts\s*$/.test(line)) open = { line: index + 2, code: [] };
    } else if (/^```\s*$/.test(line)) {
      snippets.push({ document, line: open.line, code: open.code.join('\n') });
      open = null;
    } else {
      open.code.push(line);
    }
  }
  return snippets;
}

/**
 * Writes each snippet as a file that sees what a file in functions/<name>/ would see, padded with empty lines so that the compiler's line numbers are the document's, and a
 * configuration for `tsc -p`. Answers with the configuration's path.
 */
export function writeSnippets(root: string, folder: string, snippets: readonly Snippet[]): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const [index, snippet] of snippets.entries()) {
    const name = `${snippet.document.replaceAll(/[^\w-]/g, '_')}_${index + 1}.ts`;
    writeFileSync(join(folder, name), `${'\n'.repeat(snippet.line - 1)}${snippet.code}\n`);
  }
  const up = relative(folder, root);
  const config = join(folder, 'tsconfig.json');
  const paths = Object.fromEntries(Object.entries(DOORS).map(([name, door]) => [name, [`${up}/${door}`]]));
  const compilerOptions = {
    // As in infra/: CDK's props do not know the difference.
    exactOptionalPropertyTypes: false,
    noUnusedLocals: false,
    noUnusedParameters: false,
    paths,
    rootDirs: ['..', `${up}/functions`],
  };
  writeFileSync(config, JSON.stringify({ extends: `${up}/tsconfig.base.json`, compilerOptions, include: ['*.ts'] }));
  return config;
}
