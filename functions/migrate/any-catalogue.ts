import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CatalogueRows } from '../../shared/events/index.ts';
import type { InstallReport } from './install.ts';
import { migrateNow } from './migrate-now.ts';

/** What goes with a catalogue of anybody's: their own tables are theirs. */
const AREAS = ['outbox', 'inbox', 'vault'];

/** For a catalogue that the construct `OutboxDatabase` was given: it writes `catalogue.json` beside the bundle, where the SQL is, too. */
export async function handler(): Promise<InstallReport> {
  const directory = process.env['LAMBDA_TASK_ROOT'] ?? import.meta.dirname;
  const catalogue = JSON.parse(readFileSync(join(directory, 'catalogue.json'), 'utf8')) as CatalogueRows;
  return migrateNow({ directory, areas: AREAS, catalogue });
}
