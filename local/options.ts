import { parseArgs } from 'node:util';
import { LocalCloudProblem } from './problem.ts';

export interface Options {
  readonly help: boolean;
  /** Send real traffic, check every effect, end. */
  readonly check: boolean;
  readonly verbose: boolean;
  /** Port of the local AWS; undefined takes a free one. */
  readonly port: number | undefined;
  /** Where state and logs are kept, relative to the repository. */
  readonly directory: string;
}

export const HELP = `Runs Sealed Outbox on this machine: PostgreSQL, a local AWS, the real deployment. Needs Node.js and Python 3.11
or newer; no Docker, no AWS account. Everything listens on 127.0.0.1 only.

  npm start                     start, send sample traffic, print the addresses, stay until Ctrl-C
  npm start -- --check          start, send traffic, check every effect, print a summary, end with 0 or 1

  --port <number>               port of the local AWS and so of the API (default: a free one)
  --directory <path>            where state and logs are kept (default: .local); another one runs beside the first
  --verbose                     print what each step is doing
  --help                        this text`;

/** @throws LocalCloudProblem (`LOCAL_OPTION`) naming the option that is not understood. */
export function parseOptions(args: readonly string[]): Options {
  const values = parse(args);
  return {
    help: values.help,
    check: values.check,
    verbose: values.verbose,
    port: values.port === undefined ? undefined : parsePort(values.port),
    directory: values.directory,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        check: { type: 'boolean', default: false },
        verbose: { type: 'boolean', default: false },
        port: { type: 'string' },
        directory: { type: 'string', default: '.local' },
      },
    }).values;
  } catch (error) {
    throw new LocalCloudProblem(
      'LOCAL_OPTION',
      `${(error as Error).message} \`npm start -- --help\` lists the options.`,
    );
  }
}

function parsePort(text: string): number {
  const port = Number(text);
  if (Number.isInteger(port) && port >= 1024 && port <= 65535) return port;
  throw new LocalCloudProblem(
    'LOCAL_OPTION',
    '--port must be a whole number between 1024 and 65535, such as --port 4566.',
  );
}
