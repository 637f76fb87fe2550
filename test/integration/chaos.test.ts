import { afterAll, describe, expect, it } from 'vitest';
import { everyFault } from '../chaos/every-fault.ts';
import type { ChaosOptions } from '../chaos/options.ts';
import type { ChaosReport } from '../chaos/report.ts';
import { runChaos } from '../chaos/run.ts';

const SHORT: ChaosOptions = {
  events: 500,
  relays: 2,
  seed: 1,
  // A limit for busy machines; a run ends when every kind of fault had its turn, after some fifteen seconds.
  minutes: 3,
  relay: 'ours',
  consumer: 'ours',
  rate: 60,
  sweep: 'begun',
  every: 0.9,
  callsEvery: 0.4,
  verbose: false,
};

/** A test that runs out of time ends its run, and the file waits until nothing is left of it. */
const runs: Promise<unknown>[] = [];
afterAll(() => Promise.allSettled(runs), 60_000);

async function run(options: Partial<ChaosOptions>, signal: AbortSignal): Promise<ChaosReport> {
  const running = runChaos({ ...SHORT, ...options }, { signal, say: () => {} });
  runs.push(running);
  const report = await running;
  if (report === null) throw new Error('the run was interrupted');
  return report;
}

describe('a run of chaos', () => {
  it('26. loses, invents, reorders, repeats and leaves nothing, whatever is killed, frozen, cut, restarted, refused, repeated or replayed', async ({
    signal,
  }) => {
    const report = await run({}, signal);
    expect(report.examples).toEqual([]);
    expect(Object.values(report.verdict)).toEqual(Object.values(report.verdict).map(() => 0));
    expect(report.ok).toBe(true);
    expect(report.events.committed).toBeGreaterThanOrEqual(300);
    expect(Object.keys(report.faults)).toEqual(expect.arrayContaining(everyFault(SHORT)));
    expect(report.awaitPoints.killed.length).toBeGreaterThan(0);
    // Poison was held, and the operator did both.
    expect(report.operator.mended + report.operator.skipped).toBeGreaterThan(0);
    expect(report.provider.mails).toBeGreaterThan(0);
    expect(report.provider.requests).toBeGreaterThan(report.provider.mails);
  }, 300_000);

  it.for(['naive', 'cursor'] as const)(
    'catches a relay that breaks the order: %s',
    // Whether a commit is late enough to be overtaken is a matter of the machine's pace: a run without a break proves nothing, so there
    // are three. One that catches none of them fails.
    { retry: 2, timeout: 150_000 },
    async (relay, { signal }) => {
      // At a pace that the relay can follow: what commits late is late only for a relay that is up to date.
      const report = await run({ relay, events: 1_000, rate: 120, minutes: 1.5 }, signal);
      expect(report.ok).toBe(false);
      expect(report.verdict.orderBreaks).toBeGreaterThan(0);
      // What it is caught for is its own doing: commits are kept and rollbacks are none of it.
      expect(report.verdict).toMatchObject({
        ghosts: 0,
        commitsLost: 0,
        rollbacksKept: 0,
        effectsTwice: 0,
        callsTwice: 0,
      });
    },
  );

  it('catches a consumer that keeps no dedupe rows', async ({ signal }) => {
    const { ok, verdict } = await run({ consumer: 'no-dedupe', events: 120, sweep: 'off' }, signal);
    expect(ok).toBe(false);
    expect(verdict.effectsTwice).toBeGreaterThan(0);
    expect(verdict.readModelsWrong).toBeGreaterThan(0);
    // The relay's part is as it should be, and so are calls: they have keys of their own.
    expect(verdict).toMatchObject({ lost: 0, ghosts: 0, orderBreaks: 0, callsTwice: 0 });
  }, 150_000);

  it('catches a consumer that acknowledges before it has committed', async ({ signal }) => {
    const { ok, verdict } = await run({ consumer: 'acknowledges-first', events: 120, sweep: 'off' }, signal);
    expect(ok).toBe(false);
    expect(verdict.effectsMissing).toBeGreaterThan(0);
    expect(verdict.readModelsWrong).toBeGreaterThan(0);
    // The messages are gone: what is missing does not wait in a queue.
    expect(verdict).toMatchObject({ lost: 0, ghosts: 0, orderBreaks: 0, effectsTwice: 0, messagesLeft: 0 });
  }, 150_000);
});
