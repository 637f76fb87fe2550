import { type JudgedFigure, shown } from './figure.ts';

/** What was measured, on what. */
export interface Setting {
  /** Of the start, UTC. */
  readonly date: Date;
  /** Short hash, with `+` where files differ from it. */
  readonly commit: string;
  readonly node: string;
  readonly postgres: string;
  readonly cores: number;
  readonly quick: boolean;
}

/** What became of one benchmark. */
export interface Outcome {
  readonly benchmark: string;
  readonly figures: readonly JudgedFigure[];
  readonly seconds: number;
  /** Why it could not be measured. */
  readonly failure?: string;
}

/**
 * As `--json` writes them: names are unique, a value that is no number is null.
 *
 * @throws Error where two figures of a benchmark would have one name
 */
export function jsonOf(outcomes: readonly Outcome[]): string {
  const figures = outcomes.flatMap(named);
  const names = new Set<string>();
  for (const { name } of figures) {
    if (names.has(name)) throw new Error(`Two figures are named "${name}": give one of them a name of its own.`);
    names.add(name);
  }
  return `${JSON.stringify(figures, null, 2)}\n`;
}

/**
 * Figures under names that stand for themselves: with the benchmark's, and where an indented name occurs more than once in it, with that of the
 * figure above that it belongs to.
 */
function named({ benchmark, figures }: Outcome): JudgedFigure[] {
  const names = figures.map((figure) => figure.name.trim());
  let above = '';
  return figures.map((figure, index) => {
    const name = names[index] ?? '';
    if (!figure.name.startsWith(' ')) above = name;
    const alone = names.indexOf(name) === names.lastIndexOf(name) || name === above;
    return { ...figure, name: `${benchmark}: ${alone ? name : `${above}, ${name}`}` };
  });
}

/** The report in Markdown. `expected` names all that were to run: those that have not yet are listed as such. */
export function markdownOf(setting: Setting, outcomes: readonly Outcome[], expected: readonly string[]): string {
  const all = outcomes.flatMap(({ figures }) => figures).filter(({ ok }) => ok !== null);
  const reached = all.filter(({ ok }) => ok === true).length;
  const done = new Set(outcomes.map(({ benchmark }) => benchmark));
  const missing = expected.filter((name) => !done.has(name));
  const minutes = outcomes.reduce((sum, { seconds }) => sum + seconds, 0) / 60;
  return [
    '# Benchmark report',
    '',
    `Written by \`npm run bench -- … --report FILE\`; what each row means and how it is measured: [benchmarks.md](benchmarks.md).`,
    '',
    '| date | commit | Node.js | PostgreSQL | cores | took |',
    '|---|---|---|---|---|---|',
    `| ${setting.date.toISOString().slice(0, 16).replace('T', ' ')} UTC | ${setting.commit} | ${setting.node} | ${setting.postgres} | ${setting.cores} | ${minutes.toFixed(0)} min |`,
    '',
    ...(setting.quick ? ['A quick run, a tenth of the sizes: its numbers are rough.', ''] : []),
    `**${reached} of ${all.length} goals reached.**`,
    '',
    ...(missing.length > 0 ? [`Not measured: ${missing.join(', ')}.`, ''] : []),
    ...outcomes.flatMap(section),
  ].join('\n');
}

function section({ benchmark, figures, failure }: Outcome): string[] {
  if (failure !== undefined) return [`## ${benchmark}`, '', `Could not be measured: ${escaped(failure)}`, ''];
  const rows = figures.map((figure) => {
    const name = figure.name.startsWith(' ') ? `– ${figure.name.trim()}` : figure.name;
    const goal = figure.goal ?? '';
    const ok = figure.ok === null ? '' : figure.ok ? 'ok' : '**missed**';
    return `| ${escaped(name)} | ${shown(figure.value)} | ${escaped(figure.unit)} | ${goal} | ${ok} |`;
  });
  return [`## ${benchmark}`, '', '| what | value | unit | goal | |', '|---|--:|---|---|---|', ...rows, ''];
}

function escaped(text: string): string {
  return text
    .replaceAll('|', '\\|')
    .replaceAll(/\s*\n\s*/g, ' ')
    .replaceAll('<', '&lt;');
}
