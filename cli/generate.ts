import { defaultOutput, generateValidators } from './generate/generate-validators.ts';
import { runModuleCommand } from './module-command.ts';

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

process.exitCode = await runModuleCommand(process.argv.slice(2), {
  help: HELP,
  async run(module, output = defaultOutput(module)) {
    console.log(`${(await generateValidators(module, output)) ? 'written' : 'unchanged'}: ${output}`);
    return 0;
  },
});
