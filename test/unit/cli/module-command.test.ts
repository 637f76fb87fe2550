import { afterEach, describe, expect, it, vi } from 'vitest';
import { runModuleCommand } from '../../../cli/module-command.ts';

const features = process.features as { typescript?: unknown };
const own = Object.getOwnPropertyDescriptor(features, 'typescript');

afterEach(() => {
  vi.restoreAllMocks();
  if (own === undefined) delete features.typescript;
  else Object.defineProperty(features, 'typescript', own);
});

describe('a command on a module', () => {
  it.each([
    ['catalogue.ts', false, 1],
    ['catalogue.mts', false, 1],
    ['catalogue.js', false, 0],
    ['catalogue.ts', 'strip', 0],
  ])('%s, where Node.js reads TypeScript: %s', async (module, typescript, code) => {
    Object.defineProperty(features, 'typescript', { value: typescript, configurable: true });
    const said = vi.spyOn(console, 'error').mockReturnValue();
    const run = vi.fn<() => Promise<number>>(async () => 0);
    expect(await runModuleCommand([module], { help: 'help', run })).toBe(code);
    expect(run).toHaveBeenCalledTimes(code === 0 ? 1 : 0);
    if (code === 1) expect(said.mock.calls.join('')).toMatch(/does not read TypeScript.*22\.18.*compiled/s);
  });
});
