import { parseArgs } from 'node:util';
import { SealedOutboxError } from '../shared/errors/index.ts';
import { defaultOutput, generateValidators } from './generate/generate-validators.ts';

/** In the repository it has no script of its own. */
const USAGE = import.meta.url.endsWith('.ts') ? 'node cli/generate.ts' : 'npx sealed-outbox generate';

const HELP = `Compiles the JSON Schemas of a catalogue to validators that need no compiler at run time.

Usage: ${USAGE} <module> [<output>]

  <module>   JavaScript or TypeScript file that exports 'definition' (made by defineCatalogue),
             or 'schemas', an object of JSON Schemas
  <output>   file to write, ending in .js; its types go beside it, ending in .d.ts
             (default: validators.generated.js beside the module)

  --help     shows this

Exit code: 0 written or unchanged, 1 the catalogue is wrong, 2 wrong use.
`;

/** @returns the process's exit code. */
async function main(argv: readonly string[]): Promise<number> {
  let args;
  try {
    args = parseArgs({ args: [...argv], options: { help: { type: 'boolean' } }, allowPositionals: true });
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${HELP}`);
    return 2;
  }
  if (args.values.help === true) {
    console.log(HELP);
    return 0;
  }
  const [module, output, ...rest] = args.positionals;
  if (module === undefined || rest.length > 0) {
    console.error(HELP);
    return 2;
  }
  try {
    const target = output ?? defaultOutput(module);
    console.log(`${(await generateValidators(module, target)) ? 'written' : 'unchanged'}: ${target}`);
    return 0;
  } catch (error) {
    if (error instanceof SealedOutboxError) console.error(`${error.code}: ${error.message}`);
    else console.error(error);
    return 1;
  }
}

process.exitCode = await main(process.argv.slice(2));
