import { join } from 'node:path';
import { definition } from '../sample/catalogue/definition.ts';
import type { InstallReport } from './install.ts';
import { migrateNow } from './migrate-now.ts';

/** The sample's: the bundle has the SQL beside it, and holds the catalogue. */
export async function handler(): Promise<InstallReport> {
  const directory = process.env['LAMBDA_TASK_ROOT'] ?? join(import.meta.dirname, '../..');
  return migrateNow({ directory, catalogue: definition });
}
