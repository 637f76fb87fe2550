/** A Markdown table. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** A document with what stands between `<!-- name -->` and `<!-- /name -->` written anew; what stands around stays. */
export function withTables(document: string, made: Readonly<Record<string, string>>): string {
  return Object.entries(made).reduce((before, [name, rows]) => {
    const [start, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
    const [from, to] = [before.indexOf(start), before.indexOf(end)];
    if (from === -1 || to < from) throw new Error(`the document lacks ${start} … ${end}`);
    return `${before.slice(0, from + start.length)}\n\n${rows}\n\n${before.slice(to)}`;
  }, document);
}
