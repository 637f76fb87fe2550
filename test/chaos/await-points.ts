import { writeSync } from 'node:fs';
import type { Clock, Publisher, RelayConnection } from '../../shared/outbox/index.ts';

/** Where a relay is to kill itself: at the n-th time that it comes to this point. */
export interface CrashAt {
  readonly point: string;
  readonly occurrence: number;
}

/** What a relay process says of its await points, one JSON object a line. */
export type PointReport = { readonly seen: string } | { readonly dying: string };

/**
 * Every place where a relay waits for something else, by name: `before …` (asked for nothing yet), `during …` (asked, no answer yet) and
 * `after …` (answered, not yet acted upon).
 */
export interface AwaitPoints {
  around<T>(what: string, work: () => Promise<T>): Promise<T>;
}

const CALLS = new Set(['publish', 'preflight']);

/** Reports the points that the process comes to, and kills it (SIGKILL) where it is told to. */
export function awaitPoints(crash: CrashAt | undefined): AwaitPoints {
  const counts = new Map<string, number>();
  // Synchronous: nothing that the process does after this may be lost with it.
  const say = (report: PointReport): void => {
    writeSync(1, `${JSON.stringify(report)}\n`);
  };
  const at = (point: string): void => {
    const count = (counts.get(point) ?? 0) + 1;
    counts.set(point, count);
    if (count === 1) say({ seen: point });
    if (crash?.point === point && crash.occurrence <= count) {
      say({ dying: point });
      process.kill(process.pid, 'SIGKILL');
    }
  };
  return {
    async around(what, work) {
      at(`before ${what}`);
      let answered = false;
      const during = (): void => {
        if (!answered) at(`during ${what}`);
      };
      const answer = work();
      if (crash?.point === `during ${what}` || !counts.has(`during ${what}`)) {
        // By then the request has left this process. The SDK takes some milliseconds to write a call.
        if (CALLS.has(what)) setTimeout(during, 3);
        else setImmediate(during);
      }
      try {
        const result = await answer;
        at(`after ${what}`);
        return result;
      } finally {
        answered = true;
      }
    },
  };
}

export function watchedConnection(connection: RelayConnection, points: AwaitPoints): RelayConnection {
  return {
    query: (text, values) => points.around(statementName(text), () => connection.query(text, values)),
    on: (event, listener) => connection.on(event, listener),
    end: () => points.around('end of connection', () => connection.end()),
  };
}

export function watchedPublisher(publisher: Publisher, points: AwaitPoints): Publisher {
  return {
    limits: publisher.limits,
    preflight: () => points.around('preflight', () => publisher.preflight()),
    publish: (messages) => points.around('publish', () => publisher.publish(messages)),
    close: () => publisher.close(),
  };
}

export function watchedClock(clock: Clock, points: AwaitPoints): Clock {
  return {
    monotonic: () => clock.monotonic(),
    wall: () => clock.wall(),
    sleep: (ms, signal) => points.around('sleep', () => clock.sleep(ms, signal)),
  };
}

/** What a statement does, in few words: `update partition (lease_owner = null)`, `select delivery, event`. */
export function statementName(sql: string): string {
  const text = sql
    .replaceAll(/--[^\n]*/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim()
    .toLowerCase();
  const write = /\b(insert into|update|delete from) outbox\.(\w+)/.exec(text);
  if (write !== null) {
    const set = /\bset (\w+ = (?:null\b)?)/.exec(text.slice(write.index))?.[1] ?? '';
    const detail = write[1] === 'update' && set !== '' ? ` (${set.endsWith('null') ? set : set.slice(0, -3)})` : '';
    return `${write[1]?.split(' ')[0]} ${write[2]}${detail}`;
  }
  const tables = new Set([...text.matchAll(/\b(?:from|join|select) outbox\.(\w+)/g)].map((found) => found[1]));
  if (tables.size > 0) return `select ${[...tables].join(', ')}`;
  return text.slice(0, 40);
}
