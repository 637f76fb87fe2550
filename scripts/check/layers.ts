import { posix } from 'node:path';
import { type ParseResult, parseSync, Visitor } from 'oxc-parser';

/**
 * Which folder may import from which. Everything points down to `shared`, so that the library can be used without the
 * functions, and the functions without the infrastructure.
 */
const FOLDERS: Readonly<Record<string, readonly string[]>> = {
  shared: ['shared'],
  functions: ['functions', 'shared'],
  infra: ['infra', 'functions', 'shared'],
  cli: ['cli', 'shared'],
  local: ['local', 'shared'],
  scripts: ['scripts', 'cli', 'functions', 'infra', 'shared'],
};

/** Tests and benchmarks look at everything, also behind the doors. Examples are projects of their own, which have the library as a package. */
const LOOK_EVERYWHERE = new Set(['test', 'bench', 'examples']);

/** The areas of `shared`, lowest first. An area may import the areas of lower rows. */
const AREAS: readonly (readonly string[])[] = [
  ['errors', 'files'],
  ['telemetry'],
  ['database'],
  ['sealing'],
  ['events', 'archive', 'retention'],
  ['outbox', 'inbox', 'operations'],
  ['testing'],
];

/** The library must run wherever PostgreSQL and SQS are reached, so it knows neither Lambda nor CDK. */
const NOT_IN_SHARED = /^(@aws-lambda-powertools\/|@middy\/|aws-lambda$|aws-cdk-lib($|\/)|constructs$|cdk-nag$)/;

/** Except the consumer's wrapper, which is a Lambda handler by nature, and what a test invokes it with. */
const ALLOWED_IN: Readonly<Record<string, RegExp>> = { inbox: /^(@middy\/core$|aws-lambda$)/, testing: /^aws-lambda$/ };

const NOT_IN_FUNCTIONS = /^(aws-cdk-lib($|\/)|constructs$|cdk-nag$|aws-cdk$)/;

export interface Violation {
  readonly file: string;
  readonly line: number;
  readonly imports: string;
  readonly reason: string;
}

/**
 * Every import of the project that points up or past a door. `files` maps paths relative to the root (with `/`) to
 * TypeScript source. Type imports count too: a type from above ties the library to it just the same.
 */
export function layerViolations(files: ReadonlyMap<string, string>): Violation[] {
  const violations: Violation[] = [];
  for (const [file, source] of files) {
    for (const { specifier, offset } of importsOf(file, source)) {
      const reason = forbidden(file, specifier);
      if (reason === null) continue;
      violations.push({ file, line: source.slice(0, offset).split('\n').length, imports: specifier, reason });
    }
  }
  return violations;
}

function forbidden(file: string, specifier: string): string | null {
  const from = file.split('/');
  const folder = from[0] ?? '';
  if (from.length === 1 || LOOK_EVERYWHERE.has(folder)) return null;
  const allowed = FOLDERS[folder];
  if (allowed === undefined) return `${folder}/ has no place in the layers: add it to scripts/check/layers.ts`;
  if (!specifier.startsWith('.')) return forbiddenPackage(from, specifier);

  const target = posix.normalize(posix.join(posix.dirname(file), specifier));
  const to = target.split('/');
  const toFolder = to[0] ?? '';
  if (to.length === 1) return null;
  if (!allowed.includes(toFolder)) return `${folder}/ may import only from ${allowed.join(', ')}`;
  // What lies in functions/ itself belongs to all of them.
  const isOfAnother = to.length > 2 && from[1] !== to[1];
  if (folder === 'functions' && toFolder === 'functions' && isOfAnother && to[2] !== 'catalogue') {
    return 'a function may import of another only its catalogue';
  }
  if (folder === 'infra' && toFolder === 'functions' && to[2] !== 'catalogue') {
    return 'infra/ may import only from infra, shared and a catalogue of the functions';
  }
  if (toFolder !== 'shared' || (folder === 'shared' && from[1] === to[1])) return null;
  if (to.length !== 3 || to[2] !== 'index.ts') return `shared/${to[1]} has one door: shared/${to[1]}/index.ts`;
  return folder === 'shared' ? forbiddenArea(from[1] ?? '', to[1] ?? '') : null;
}

function forbiddenArea(from: string, to: string): string | null {
  const rank = (area: string): number => AREAS.findIndex((row) => row.includes(area));
  for (const area of [from, to]) {
    if (rank(area) === -1) return `shared/${area} has no place in the layers: add it to scripts/check/layers.ts`;
  }
  return rank(to) < rank(from) ? null : `shared/${to} is not below shared/${from}`;
}

function forbiddenPackage(from: readonly string[], specifier: string): string | null {
  if (from[0] === 'shared' && NOT_IN_SHARED.test(specifier)) {
    return ALLOWED_IN[from[1] ?? '']?.test(specifier) === true ? null : 'shared/ knows nothing of Lambda or CDK';
  }
  if (from[0] === 'functions' && NOT_IN_FUNCTIONS.test(specifier)) return 'functions/ know nothing of CDK';
  return null;
}

interface Import {
  readonly specifier: string;
  readonly offset: number;
}

/** Static, dynamic, re-exporting and type imports, from the syntax tree and not by pattern: comments and strings lie. */
function importsOf(file: string, source: string): Import[] {
  const result: ParseResult = parseSync(file, source);
  const first = result.errors[0];
  if (first !== undefined) throw new Error(`${file} cannot be parsed: ${first.message}`);
  const found: Import[] = [];
  const add = (node: { readonly value: unknown; readonly start: number } | null): void => {
    if (node !== null && typeof node.value === 'string') found.push({ specifier: node.value, offset: node.start });
  };
  new Visitor({
    ImportDeclaration: (node) => add(node.source),
    ExportNamedDeclaration: (node) => add(node.source),
    ExportAllDeclaration: (node) => add(node.source),
    TSImportType: (node) => add(node.source),
    ImportExpression: (node) => {
      if (node.source.type === 'Literal') add(node.source);
    },
  }).visit(result.program);
  return found;
}
