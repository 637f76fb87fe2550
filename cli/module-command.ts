import { parseArgs } from 'node:util';
import { SealedOutboxError } from '../shared/errors/index.ts';

/** A command on a module that somebody wrote, and on a file beside it that the command writes or compares. */
export interface ModuleCommand {
  readonly help: string;
  /** Options beside `--help`. */
  readonly options?: Readonly<Record<string, { readonly type: 'boolean' | 'string' }>>;
  /** @returns the exit code. What it throws is shown and makes 1 of it. */
  run(module: string, file: string | undefined, values: Readonly<Record<string, unknown>>): Promise<number>;
}

/** Whether this process can import TypeScript: Node.js can by itself from 22.18 and 23.6 on. */
function readsTypeScript(): boolean {
  return Boolean((process.features as { readonly typescript?: unknown }).typescript);
}

/** Reads the words and runs the command. @returns the exit code: 2 for wrong use */
export async function runModuleCommand(argv: readonly string[], command: ModuleCommand): Promise<number> {
  let args;
  try {
    const options = { help: { type: 'boolean' }, ...command.options } as const;
    args = parseArgs({ args: [...argv], options, allowPositionals: true });
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${command.help}`);
    return 2;
  }
  if (args.values.help === true) {
    console.log(command.help);
    return 0;
  }
  const [module, file, ...rest] = args.positionals;
  if (module === undefined || rest.length > 0) {
    console.error(command.help);
    return 2;
  }
  if (/\.[cm]?ts$/.test(module) && !readsTypeScript()) {
    console.error(
      `Node.js ${process.version} does not read TypeScript, which ${module} is. Nothing was written. Use 22.18 and later for this command, or name a compiled module.`,
    );
    return 1;
  }
  try {
    return await command.run(module, file, args.values);
  } catch (error) {
    if (error instanceof SealedOutboxError) console.error(`${error.code}: ${error.message}`);
    else console.error(error);
    return 1;
  }
}
