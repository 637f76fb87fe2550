import { parseArgs } from 'node:util';
import {
  type ArgumentSchema,
  type Command,
  type CommandName,
  commands,
  isCommandName,
} from '../../shared/operations/index.ts';
import { TARGET_OPTIONS, type TargetOptions } from '../cloud/target.ts';

/** The words cannot be understood. Nothing was asked or done. */
export class UsageError extends Error {
  /** Whose help to show; undefined: the list of commands. */
  readonly command: CommandName | undefined;

  constructor(message: string, command?: CommandName) {
    super(message);
    this.command = command;
  }
}

export interface Order {
  readonly name: CommandName;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly reason: string | undefined;
  readonly by: string | undefined;
  readonly json: boolean;
  readonly yes: boolean;
  readonly dryRun: boolean;
  readonly watch: boolean;
  readonly target: TargetOptions;
}

export type Parsed = { readonly help: CommandName | null } | { readonly order: Order };

const OWN_OPTIONS = {
  ...TARGET_OPTIONS,
  reason: { type: 'string' },
  by: { type: 'string' },
  json: { type: 'boolean' },
  yes: { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  watch: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

/** @throws UsageError */
export function parse(words: readonly string[]): Parsed {
  const [first = '', second = ''] = words;
  const name = [`${first} ${second}`, first].find(isCommandName);
  if (name === undefined) {
    if (words.length === 0 || words.includes('--help') || words.includes('-h')) return { help: null };
    throw new UsageError(
      `there is no command ${words
        .filter((word) => !word.startsWith('-'))
        .slice(0, 2)
        .join(' ')}.`,
    );
  }
  const command = commands[name];
  const { values, positionals } = split(words.slice(name.split(' ').length), command, name);
  if (values['help'] === true) return { help: name };
  const order = {
    name,
    arguments: argumentsFrom(command, name, values, positionals),
    reason: text(values['reason']),
    by: text(values['by']),
    json: values['json'] === true,
    yes: values['yes'] === true,
    dryRun: values['dry-run'] === true,
    watch: values['watch'] === true,
    target: {
      stack: text(values['stack']),
      function: text(values['function']),
      region: text(values['region']),
      profile: text(values['profile']),
      directory: text(values['directory']),
    },
  };
  requireFit(order, command);
  return { order };
}

function requireFit({ name, reason, watch, dryRun }: Order, { kind, before }: Command): void {
  if (kind === 'act' && !dryRun && (reason ?? '').trim() === '') {
    throw new UsageError('say why: --reason "…, INC-7". The audit keeps it.', name);
  }
  if (kind !== 'act' && reason !== undefined) throw new UsageError('it changes nothing and takes no --reason.', name);
  if (watch && kind !== 'glance') throw new UsageError('only what shows counts and states can be watched.', name);
  if (dryRun && before === undefined) throw new UsageError('it has no dry run.', name);
}

type Values = Readonly<Record<string, unknown>>;

function split(
  words: readonly string[],
  command: Command,
  name: CommandName,
): { values: Values; positionals: readonly string[] } {
  const named = Object.entries(command.arguments.properties).filter(([field]) => !command.places.includes(field));
  const options = Object.fromEntries(
    named.map(([field, schema]) => [
      optionName(field),
      { type: schema.type === 'boolean' ? ('boolean' as const) : ('string' as const) },
    ]),
  );
  try {
    return parseArgs({ args: [...words], options: { ...options, ...OWN_OPTIONS }, allowPositionals: true });
  } catch (error) {
    throw new UsageError((error as Error).message, name);
  }
}

function argumentsFrom(
  { arguments: { properties, required }, places }: Command,
  name: CommandName,
  values: Values,
  positionals: readonly string[],
): Record<string, unknown> {
  if (positionals.length !== places.length) {
    const wanted = places.map((place) => `<${optionName(place)}>`).join(' ') || 'nothing';
    throw new UsageError(`it takes ${wanted} behind its name, not ${positionals.length} words.`, name);
  }
  const given = Object.entries(properties).flatMap(([field, schema]) => {
    const place = places.indexOf(field);
    const word = place === -1 ? values[optionName(field)] : positionals[place];
    return word === undefined ? [] : [[field, valueOf(word as string | boolean, schema, field, name)] as const];
  });
  const found = Object.fromEntries(given);
  const missing = required.find((field) => !(field in found));
  if (missing !== undefined) throw new UsageError(`--${optionName(missing)} is required.`, name);
  return found;
}

/** What a word means; whether it is right, the function decides. */
function valueOf(word: string | boolean, { type }: ArgumentSchema, field: string, name: CommandName): unknown {
  if (typeof word === 'boolean' || type === 'string') return word;
  switch (type) {
    case 'integer':
      if (!/^\d{1,15}$/.test(word)) throw new UsageError(`${optionName(field)} must be a whole number.`, name);
      return Number(word);
    case 'array':
      return word.split(',').map((item) => item.trim());
    default:
      try {
        return JSON.parse(word) as unknown;
      } catch {
        throw new UsageError(`--${optionName(field)} must be JSON, such as '{"messageId":"m-17"}'.`, name);
      }
  }
}

/** `perSecond` → `per-second`. */
export function optionName(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
