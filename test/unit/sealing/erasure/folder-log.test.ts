import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { folderErasureLog } from '../../../../shared/sealing/index.ts';
import { allOf } from '../../../support/archive-conformance.ts';
import { erasureLogConformance } from '../../../support/erasure-log-conformance.ts';

const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-erasures-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
let folders = 0;
const folder = (): string => join(directory, String((folders += 1)));

erasureLogConformance(() => folderErasureLog(folder()));

describe('a folder', () => {
  it('shows no half-written entry, and keeps none', async () => {
    const path = folder();
    const log = folderErasureLog(path);
    await log.create('entry/000000000001.json', Buffer.from('{}'));
    await log.create('entry/000000000001.json', Buffer.from('{}'));
    writeFileSync(join(path, 'entry', '000000000002.json.x.partial'), 'half');
    expect(await allOf(log.list('entry/', ''))).toEqual(['entry/000000000001.json']);
    expect(readdirSync(join(path, 'entry'))).toHaveLength(2);
  });
});
