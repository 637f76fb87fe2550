/** Makes the git-ignored files that the rest imports: `npm run generate`. */
import { defaultOutput, generateValidators } from '../cli/generate/generate-validators.ts';

const MODULES = [
  'functions/sample/catalogue/definition.ts',
  'functions/sample/api/schemas.ts',
  'functions/operator/schemas.ts',
];

process.chdir(`${import.meta.dirname}/..`);
for (const module of MODULES) await generateValidators(module, defaultOutput(module));
