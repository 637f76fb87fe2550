import { join } from 'node:path';
import { runChild } from './child.ts';

/** Formats every file and mends what the linter can mend by itself. */
const bin = (name: string): string => join('node_modules', '.bin', name);
const format = await runChild(bin('oxfmt'), ['.']);
const lint = await runChild(bin('oxlint'), ['--type-aware', '--fix']);
process.exitCode = format.code === 0 ? lint.code : format.code;
