import { describe, expect, it } from 'vitest';
import { acceptance } from '../../chaos/acceptance.ts';
import { conclude, type Run } from '../../chaos/conclude.ts';
import { parseOptions } from '../../chaos/options.ts';
import { emptyLedger } from '../../chaos/writers.ts';

/** A database in which everything is as it must be: nothing was written, and nothing is left. */
const db = {
  query: async (text: string) => ({
    rows: text.includes('as twice') ? [{ twice: 0, out_of_order: 0 }] : text.includes(' as open ') ? [{ open: 0 }] : [],
  }),
  end: async () => {},
};

const run = (more: Partial<Run> = {}): Run => ({
  options: parseOptions([]),
  stage: { connect: async () => db } as unknown as Run['stage'],
  taken: acceptance([], new Set()),
  ledger: emptyLedger(),
  faults: new Map(),
  relays: { points: { seen: new Set(), killed: new Set() }, starts: 1 } as unknown as Run['relays'],
  provider: { mails: () => [], requests: () => [] } as unknown as Run['provider'],
  operated: { skipped: new Set(), mended: 0, held: {} },
  stuck: [],
  unexplained: [],
  messagesLeft: 0,
  replaysUnfinished: 0,
  errors: [],
  complete: true,
  seconds: { storm: 1, calm: 1 },
  ...more,
});

describe('a run of chaos', () => {
  it('passes where nothing is wrong', async () => {
    expect(await conclude(run())).toMatchObject({ ok: true, examples: [] });
  });

  it('fails for statements that a role may not run, although all was sent and applied in the end', async () => {
    const errors = ['relay-0 42501: the relay lost its session', 'consumers 42501: a message goes back to the queue'];
    const { ok, verdict, examples } = await conclude(run({ errors }));
    expect(ok).toBe(false);
    expect(verdict.errorsWithoutCause).toBe(2);
    expect(Object.values(verdict).reduce((sum, count) => sum + count, 0)).toBe(2);
    expect(examples).toEqual(errors.map((error) => `errorsWithoutCause: ${error}`));
  });

  it.each<[Partial<Run>, string]>([
    [{ stuck: ['1 messages in queues'] }, 'standstills'],
    [{ unexplained: ['ledger a#1'] }, 'heldWithoutCause'],
    [{ messagesLeft: 1 }, 'messagesLeft'],
    [{ replaysUnfinished: 1 }, 'replaysUnfinished'],
  ])('fails for %o', async (more, what) => {
    expect(await conclude(run(more))).toMatchObject({ ok: false, verdict: { [what]: 1 } });
  });
});
