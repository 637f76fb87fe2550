import { createOutbox } from 'sealed-outbox';
import { compiledCatalogue } from 'sealed-outbox/events';
import { definition } from './catalogue.ts';
import * as generated from './validators.generated.js';

export const catalogue = compiledCatalogue(definition, generated);
export const outbox = createOutbox({ catalogue });
