import { compiledCatalogue } from '../../../shared/events/index.ts';
import { definition } from './definition.ts';
import * as generated from './validators.generated.js';

/** The sample's events with their validators, which `npm run generate` makes from `definition.ts`. */
export const catalogue = compiledCatalogue(definition, generated);
