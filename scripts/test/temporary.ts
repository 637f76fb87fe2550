import { chmodSync, mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** CDK makes a directory for each application and removes none; Node keeps what it has compiled. */
const TOLERATED = /^(cdk[.-]|node-compile-cache$)/;

/** A run's own: what its tests leave there is seen, and goes with it. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-tests-'));
  // PostgreSQL runs as a user of its own where we are root, and has to pass.
  chmodSync(directory, 0o755);
  return directory;
}

/** What tests should have removed. */
export function leftIn(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => !TOLERATED.test(name))
    .toSorted();
}
