import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Catalogue } from '../shared/events/index.ts';
import { runModuleCommand } from './module-command.ts';
import { changeLines, changesSinceRelease, releaseCatalogue } from './released/release.ts';

const HELP = `Writes down a catalogue as released, and refuses what would break those who rely on the last release.

Usage: node cli/release.ts <module> [<file>] [--reason <text>] [--check]

  <module>   JavaScript or TypeScript file that exports 'definition' (made by defineCatalogue)
  <file>     what was released, to be committed (default: catalogue.released.json beside the module)

  --reason   releases breaking changes all the same; the file keeps the reason
  --check    compares only and writes nothing
  --help     shows this

Exit code: 0 released, unchanged or compatible, 1 refused, or the catalogue or the file is wrong, 2 wrong use.
`;

process.exitCode = await runModuleCommand(process.argv.slice(2), {
  help: HELP,
  options: { check: { type: 'boolean' }, reason: { type: 'string' } },
  async run(module, file = resolve(dirname(module), 'catalogue.released.json'), { check, reason }) {
    const { definition } = (await import(pathToFileURL(resolve(module)).href)) as { readonly definition?: Catalogue };
    if (definition === undefined) {
      console.error(`${module} exports no 'definition' (a catalogue). Nothing was written.`);
      return 1;
    }
    if (check === true) {
      if (!existsSync(file)) {
        console.error(`${file} is missing: restore it, or release without --check.`);
        return 1;
      }
      const changes = changesSinceRelease(definition, file);
      console.log(changeLines(changes) || 'unchanged');
      return changes.some(({ breaking }) => breaking) ? 1 : 0;
    }
    const { outcome, changes } = releaseCatalogue(definition, file, typeof reason === 'string' ? reason : undefined);
    if (changes.length > 0) console.log(changeLines(changes));
    if (outcome !== 'refused') {
      console.log(`${outcome}: ${file}`);
      return 0;
    }
    console.error('Nothing was written. To release it all the same, say why: --reason "…"');
    return 1;
  },
});
