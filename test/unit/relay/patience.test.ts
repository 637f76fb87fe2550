import { describe, expect, it } from 'vitest';
import type { Result } from '../../../shared/database/index.ts';
import { type RelayConnection, runRelay } from '../../../shared/outbox/index.ts';
import { patience } from '../../../shared/outbox/relay/patience.ts';
import { movedClock, turn } from '../../support/moved-clock.ts';
import { recordingLog } from '../../support/recorders.ts';

const never = <T>(): Promise<T> => new Promise<T>(() => {});
const codeOf = (wait: Promise<unknown>): Promise<string> =>
  wait.then(
    () => 'answered',
    (error: unknown) => (error as { code: string }).code,
  );

describe('what waits for a database', () => {
  it('is told when its own time is up, whatever was answered before, and so is everything after it', async () => {
    const clock = movedClock();
    const answers = patience(clock, 30_000);
    let answer = (): void => {};
    const quick = answers.wait(() => new Promise<void>((resolve) => (answer = resolve)));
    await clock.advance(20_000);
    answer();
    await quick;
    const silent = codeOf(answers.wait(never));
    await clock.advance(29_999);
    expect(await Promise.race([silent, Promise.resolve('waits')])).toBe('waits');
    await clock.advance(1);
    expect(await silent).toBe('DATABASE_SILENT');
    expect(await codeOf(answers.wait(async () => 'late'))).toBe('DATABASE_SILENT');
  });

  it('has five seconds more once it is told to stop', async () => {
    const clock = movedClock();
    const stop = new AbortController();
    const answers = patience(clock, 30_000, stop.signal);
    const silent = codeOf(answers.wait(never));
    await clock.advance(20_000);
    stop.abort();
    await clock.advance(4_999);
    expect(await Promise.race([silent, Promise.resolve('waits')])).toBe('waits');
    await clock.advance(1);
    expect(await silent).toBe('DATABASE_SILENT');
  });

  it('finds its answer after the process stood still for longer than that', async () => {
    let now = 0;
    const timers: (() => void)[] = [];
    const sleep = (): Promise<void> => new Promise((resolve) => timers.push(resolve));
    const answers = patience({ monotonic: () => now, wall: () => now, sleep }, 30_000);
    let answer = (): void => {};
    const frozen = codeOf(answers.wait(() => new Promise<void>((resolve) => (answer = resolve))));
    now = 60_000;
    timers.shift()?.();
    await turn();
    answer();
    expect(await frozen).toBe('answered');
    answers.end();
  });
});

describe('a relay whose connection has gone silent', () => {
  const INSTALLED = { rows: [{ source: '/test', cluster: null, number: null }], rowCount: 1 };

  /** Answers so many statements; from then on none, nor its end. */
  function connection(statements: number, texts: string[] = []): RelayConnection {
    return {
      on: () => {},
      end: () => (texts.length > statements ? never() : Promise.resolve()),
      async query(text, values): Promise<Result> {
        texts.push(text);
        if (texts.length > statements) return never();
        if (text.includes('outbox.installation')) return INSTALLED;
        // Nobody else lives.
        if (text.includes('started_at'))
          return { rows: [{ owner: values?.[1], slot: 'slot', startedAt: '' }], rowCount: 1 };
        return { rows: [], rowCount: 0 };
      },
    };
  }

  function relay(connect: () => Promise<RelayConnection>) {
    const [clock, log, stop] = [movedClock(), recordingLog(), new AbortController()];
    const options = { publishers: {}, log, slot: 'slot', mode: 'continuous', clock, signal: stop.signal } as const;
    return { clock, log, stop, running: runRelay({ ...options, random: () => 0, connect }) };
  }

  it.each([0, 1, 3, 20])('after %i answers opens another within a lease and the first wait', async (statements) => {
    let opened = 0;
    const { clock, log, stop, running } = relay(async () => {
      opened += 1;
      return connection(opened === 1 ? statements : Number.POSITIVE_INFINITY);
    });
    await turn();
    // What is asked of an idle relay first is the share, every half second.
    await clock.advance(statements * 500);
    await clock.advance(31_000);
    expect(opened).toBe(2);
    expect(log.lines.map(({ fields }) => fields['code'])).toEqual(['DATABASE_SILENT']);
    stop.abort();
    await clock.advance(5_000);
    expect((await running).ended).toBe('stopped');
  });

  it('ends within five seconds when it is told to', async () => {
    const { clock, stop, running } = relay(async () => connection(3));
    await turn();
    await clock.advance(1_000);
    stop.abort();
    await clock.advance(5_000);
    expect((await running).ended).toBe('stopped');
  });

  it('while it is being opened tries again, and closes what comes late', async () => {
    const late: (() => void)[] = [];
    let closed = 0;
    const { clock, stop, running } = relay(
      () =>
        new Promise((resolve) => late.push(() => resolve({ ...connection(0), end: async () => void (closed += 1) }))),
    );
    await clock.advance(31_000);
    expect(late).toHaveLength(2);
    late[0]?.();
    await turn();
    expect(closed).toBe(1);
    stop.abort();
    await clock.advance(5_000);
    expect((await running).ended).toBe('stopped');
  });
});
