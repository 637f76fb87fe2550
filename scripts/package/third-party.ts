import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The licences of the packages that are bundled into what is published, as those ask for.
 *
 * @param sources paths of the files that went into it
 */
export function thirdParty(root: string, sources: readonly string[]): string {
  const names = new Set(sources.flatMap((path) => packageOf(path) ?? []));
  const notices = [...names].toSorted().map((name) => {
    const folder = join(root, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
      readonly version: string;
      readonly license: string;
    };
    return `${name} ${version} (${license})\n\n${licenceIn(folder) ?? `Published under ${license}, without a text of its own.`}\n`;
  });
  return `Parts of these packages are bundled into this one.\n\n${notices.join(`\n${'-'.repeat(80)}\n\n`)}`;
}

function packageOf(path: string): string | undefined {
  const [, name] = /.*node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
  return name;
}

function licenceIn(folder: string): string | undefined {
  const file = readdirSync(folder).find((name) => /^licen[cs]e(\.md|\.txt)?$/i.test(name));
  return file === undefined ? undefined : readFileSync(join(folder, file), 'utf8').trim();
}
