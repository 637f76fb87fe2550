import { SealedOutboxError } from '../../shared/errors/index.ts';
import { givenFrom } from '../given.ts';
import { type StageName, stageNamed } from '../stages.ts';

/** The command line cannot be carried out. Code `DEPLOY_USAGE`. */
export class DeployUsageError extends SealedOutboxError {
  constructor(message: string) {
    super('DEPLOY_USAGE', `${message} Nothing was built or changed.`);
  }
}

/** What somebody asked for. */
export interface Order {
  readonly help: boolean;
  /** Show the commands and run none. */
  readonly dryRun: boolean;
  /** Show what would change and end. */
  readonly diff: boolean;
  /** Do not ask. */
  readonly yes: boolean;
  readonly profile: string | undefined;
  /** Context values by name, as `-c name=value` gives them. */
  readonly context: Readonly<Record<string, string>>;
  /** Words that are none of ours: for cdk, as they are. */
  readonly rest: readonly string[];
}

const FLAGS = new Map([
  ['--help', 'help'],
  ['-h', 'help'],
  ['--dry-run', 'dryRun'],
  ['--diff', 'diff'],
  ['--yes', 'yes'],
  ['-y', 'yes'],
] as const);

const VALUES = new Set(['--stage', '--account', '--region', '--profile', '--context', '-c']);

/** Of cdk, and settled by us: the assembly that was shown is the one that is deployed. */
const OURS = new Set(['--app', '-a', '--all', '--output', '-o']);

/**
 * Reads the words behind `npm run deploy --`. `--stage`, `--account` and `--region` are short for `-c name=value`.
 *
 * @throws DeployUsageError for a value that is missing or given twice, and for what cdk is told anyway
 */
export function orderOf(words: readonly string[]): Order {
  const flags = { help: false, dryRun: false, diff: false, yes: false };
  const context: Record<string, string> = {};
  const rest: string[] = [];
  let profile: string | undefined;
  const set = (name: string, value: string): void => {
    if (Object.hasOwn(context, name) && context[name] !== value)
      throw new DeployUsageError(`"${name}" is given twice, with different values.`);
    context[name] = value;
  };
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] as string;
    const [option, inline] = split(word);
    const flag = FLAGS.get(word as '--help');
    if (flag !== undefined) flags[flag] = true;
    else if (OURS.has(option)) throw new DeployUsageError(`${option} is set by this command: leave it out.`);
    else if (!VALUES.has(option)) rest.push(word);
    else {
      const value = inline ?? words[++index];
      if (value === undefined || value === '') throw new DeployUsageError(`${option} needs a value.`);
      if (option === '--profile') profile = value;
      else if (option === '-c' || option === '--context') {
        const [name, text] = split(value);
        if (name === '' || text === undefined) throw new DeployUsageError(`${option} takes name=value.`);
        set(name, text);
      } else set(option.slice(2), value);
    }
  }
  return { ...flags, profile, context, rest };
}

/** `a=b=c` → `a`, `b=c`. */
function split(word: string): [string, string | undefined] {
  const at = word.indexOf('=');
  return at === -1 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)];
}

/** Where an order goes. */
export interface Target {
  readonly stage: Exclude<StageName, 'local'>;
  readonly account: string;
  readonly region: string;
}

/**
 * Holds an order against what the stacks will ask for, so that it fails before anything is built.
 *
 * @param file the `context` of cdk.json, which the command line precedes
 * @throws SealedOutboxError naming the value and what to give
 */
export function targetOf(order: Order, file: Readonly<Record<string, unknown>>): Target {
  const value = (name: string): unknown => order.context[name] ?? file[name];
  const stage = stageNamed(value('stage'));
  if (stage.name === 'local') throw new DeployUsageError('Stage local is what npm start deploys, on this machine.');
  const { account, region } = givenFrom(stage, value, {}).env ?? {};
  if (account === undefined || region === undefined) {
    throw new DeployUsageError(
      `${account === undefined ? 'The account' : 'The region'} is not given, and neither is guessed from a profile. ` +
        'Give --account 111122223333 --region eu-central-1, or both in cdk.json.',
    );
  }
  return { stage: stage.name, account, region };
}
