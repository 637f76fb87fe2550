import { afterAll, expect } from 'vitest';
import { wrongStatements } from './recorders.ts';

// Relay and consumer try a statement that fails again, like an outage: what is tested would pass with one that is refused, only slowly.
afterAll(() => expect(wrongStatements.splice(0)).toEqual([]));
