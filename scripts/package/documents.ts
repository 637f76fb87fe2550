import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';

/** Of the repository's own making. */
const LEFT_OUT = /^(decisions\/|README\.md$|benchmark-report\.md$|chaos-report\.md$)/;

/**
 * The text of a document of the package: its links to other documents lead from where it stands, and of those to what does not go along only the words stay.
 *
 * @param from path in `docs/`
 * @param to path in the package
 * @param included paths in `docs/`
 */
export function packagedDocument(text: string, from: string, to: string, included: ReadonlySet<string>): string {
  return text.replaceAll(/\[([^\]]+)\]\(([^)\s]+)\)/g, (link, words: string, target: string) => {
    if (/^(https?:|#)/.test(target)) return link;
    const [path = '', ...anchor] = target.split('#');
    const document = posix.join(posix.dirname(from), path);
    if (!included.has(document)) return words;
    const relative = posix.relative(posix.dirname(to), posix.join('docs', document));
    return `[${words}](${[relative, ...anchor].join('#')})`;
  });
}

/** Guides and runbooks, which alarms name by their path, and the guide of the library as the package's README. */
export function buildDocuments(root: string, output: string): void {
  const found = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((path) =>
    path.replaceAll('\\', '/'),
  );
  const included = new Set(found.filter((path) => path.endsWith('.md') && !LEFT_OUT.test(path)));
  const write = (from: string, to: string): void => {
    mkdirSync(dirname(join(output, to)), { recursive: true });
    writeFileSync(
      join(output, to),
      packagedDocument(readFileSync(join(root, 'docs', from), 'utf8'), from, to, included),
    );
  };
  for (const path of included) write(path, posix.join('docs', path));
  write('library.md', 'README.md');
}
