import { posix } from 'node:path';

export interface BrokenLink {
  readonly file: string;
  readonly line: number;
  readonly target: string;
  readonly reason: string;
}

/**
 * Links between the project's own documents that lead nowhere: no such file, or no such heading in it.
 * `documents` maps paths of Markdown files to their text; `exists` answers for every other path.
 */
export function brokenLinks(documents: ReadonlyMap<string, string>, exists: (path: string) => boolean): BrokenLink[] {
  const broken: BrokenLink[] = [];
  for (const [file, text] of documents) {
    for (const { line, target } of linksOf(text)) {
      const reason = reasonOf(file, target, documents, exists);
      if (reason !== null) broken.push({ file, line, target, reason });
    }
  }
  return broken;
}

function reasonOf(
  file: string,
  target: string,
  documents: ReadonlyMap<string, string>,
  exists: (path: string) => boolean,
): string | null {
  if (/^[a-z][a-z+.-]*:/i.test(target)) return null;
  const [path = '', anchor] = target.split('#');
  const resolved = path === '' ? file : posix.normalize(posix.join(posix.dirname(file), decodeURIComponent(path)));
  const document = documents.get(resolved);
  if (document === undefined) return exists(resolved.replace(/\/$/, '')) ? null : 'no such file';
  if (anchor === undefined) return null;
  return headingAnchors(document).has(anchor) ? null : 'no such heading';
}

/** Inline links, images and reference definitions outside of code. */
function linksOf(text: string): { line: number; target: string }[] {
  const links: { line: number; target: string }[] = [];
  for (const { line, content } of prose(text)) {
    const withoutCode = content.replace(/`[^`]*`/g, '');
    for (const match of withoutCode.matchAll(/\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)/g)) {
      links.push({ line, target: match[1] ?? '' });
    }
    const definition = /^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?\s*$/.exec(withoutCode);
    if (definition !== null) links.push({ line, target: definition[1] ?? '' });
  }
  return links;
}

/** Anchors as GitHub makes them: lower case, punctuation dropped, spaces to hyphens, repeats numbered. */
function headingAnchors(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const { content } of prose(text)) {
    const heading = /^#{1,6}\s+(.+?)\s*#*$/.exec(content)?.[1];
    if (heading === undefined) continue;
    const base = heading
      .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replace(/\s/g, '-');
    let anchor = base;
    for (let repeat = 1; anchors.has(anchor); repeat += 1) anchor = `${base}-${repeat}`;
    anchors.add(anchor);
  }
  return anchors;
}

function prose(text: string): { line: number; content: string }[] {
  const lines: { line: number; content: string }[] = [];
  let fence: string | null = null;
  for (const [index, content] of text.split('\n').entries()) {
    const mark = /^\s*(`{3,}|~{3,})/.exec(content)?.[1];
    if (mark !== undefined && (fence === null || mark.startsWith(fence))) fence = fence === null ? mark : null;
    else if (fence === null) lines.push({ line: index + 1, content });
  }
  return lines;
}
