/** Makes the git-ignored files that the rest imports: `npm run generate`. */
import { defaultOutput, generateValidators } from '../cli/generate/generate-validators.ts';
import { GENERATED_FROM } from './bootstrap.mjs';

process.chdir(`${import.meta.dirname}/..`);
for (const module of GENERATED_FROM) await generateValidators(module, defaultOutput(module));
