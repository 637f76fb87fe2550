import { globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const MADE = /new pg\.(?:Client|Pool)\(/g;
const LISTENED = /\.on\('error'/g;

const files = globSync(['shared', 'functions', 'cli', 'local'].map((folder) => `${folder}/**/*.ts`)).filter((file) =>
  readFileSync(file, 'utf8').match(MADE),
);

describe('a connection that is lost while nobody waits for it', () => {
  it('is looked for in every file that makes one', () => {
    expect(files).toEqual(expect.arrayContaining(['functions/relay/index.ts', 'local/postgres.ts']));
  });

  it.each(files)('does not end the process: %s listens for its errors', (file) => {
    const source = readFileSync(file, 'utf8');
    expect(source.match(LISTENED)?.length ?? 0).toBeGreaterThanOrEqual(source.match(MADE)?.length ?? 0);
  });
});
