import { expect, it } from 'vitest';
import { runChaos } from '../chaos/run.ts';

const COMMON = {
  seed: 1,
  minutes: 60,
  relay: 'ours',
  consumer: 'ours',
  rate: 5_000,
  every: 1.2,
  callsEvery: 0.4,
  verbose: false,
} as const;

it.each([1, 2, 4])(
  'nothing is lost, reordered or done twice, and every await point is survived, with %i relays',
  async (relays) => {
    const report = await runChaos(
      { ...COMMON, relays, events: 20_000, sweep: 'whole', minutes: 15 },
      { signal: new AbortController().signal, say: () => {} },
    );
    expect(report).toMatchObject({ ok: true, examples: [] });
  },
);

it('nothing is lost, reordered or done twice in a million events', async () => {
  const report = await runChaos(
    { ...COMMON, relays: 2, events: 1_000_000, sweep: 'begun', every: 8, callsEvery: 4 },
    { signal: new AbortController().signal, say: (line) => console.log(line) },
  );
  expect(report).toMatchObject({ ok: true, examples: [] });
  expect(report?.events.committed).toBeGreaterThanOrEqual(1_000_000);
});
