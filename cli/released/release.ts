import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { Catalogue } from '../../shared/events/index.ts';
import { type CatalogueChange, catalogueChanges } from './catalogue-changes.ts';
import { parseReleased, type ReleasedCatalogue, releasedForm, releasedText } from './released-catalogue.ts';

/** What was released, or null before the first release. */
function readReleased(file: string): ReleasedCatalogue | null {
  return existsSync(file) ? parseReleased(readFileSync(file, 'utf8'), file) : null;
}

/**
 * The differences between `catalogue` and what `file` says was released; none before the first release.
 *
 * @throws CatalogueError (`CATALOGUE_RELEASED`) where the file is damaged.
 */
export function changesSinceRelease(catalogue: Catalogue, file: string): CatalogueChange[] {
  const released = readReleased(file);
  return released === null ? [] : catalogueChanges(released, releasedForm(catalogue));
}

export interface Release {
  readonly outcome: 'written' | 'unchanged' | 'refused';
  readonly changes: readonly CatalogueChange[];
}

/**
 * Writes the catalogue to `file` as released. Breaking changes are refused, unless there is a reason, which the file then keeps.
 *
 * @throws CatalogueError (`CATALOGUE_RELEASED`) where the file is damaged.
 */
export function releaseCatalogue(catalogue: Catalogue, file: string, reason?: string): Release {
  const released = readReleased(file);
  const changes = changesSinceRelease(catalogue, file);
  const breaking = changes.filter((change) => change.breaking).map(({ text }) => text);
  const why = reason?.trim() ?? '';
  if (breaking.length > 0 && why === '') return { outcome: 'refused', changes };
  const exceptions = [...(released?.exceptions ?? [])];
  if (breaking.length > 0) exceptions.push({ reason: why, changes: breaking });
  const text = releasedText(releasedForm(catalogue, exceptions));
  if (released !== null && text === readFileSync(file, 'utf8')) return { outcome: 'unchanged', changes };
  writeFileSync(file, text);
  return { outcome: 'written', changes };
}

/** Changes as lines for people; each breaking one with its remedy. */
export function changeLines(changes: readonly CatalogueChange[]): string {
  return changes
    .map(({ breaking, text, remedy }) => (breaking ? `breaking: ${text}.\n    ${remedy}` : `compatible: ${text}.`))
    .join('\n');
}
