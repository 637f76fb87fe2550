import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { Queryable } from '../../shared/database/index.ts';
import type { ConsumerName } from './catalogue.ts';
import type { AccountEvent } from './read-models.ts';

/** Fewer than a consumer's attempts: what fails so often works then. In each replay it fails again, once. */
const TIMES = { live: 2, replayed: 1 };
/** Longer than a delivery waits for it: what it writes then must go nowhere. In a longer invocation it is only slow. Milliseconds. */
const HANGS_MS = 3_000;

/** Mistakes of handlers, as the events say. */
export interface HandlerFaults {
  /** Rejects, or hangs until the invocation has been given up; resolves where the handler goes on. */
  meet(consumer: ConsumerName, event: AccountEvent, tx: Queryable): Promise<void>;
}

/** @param aside for what must not be rolled back with the handler */
export function handlerFaults(aside: pg.Pool, injected: (kind: string) => void): HandlerFaults {
  const count = async (consumer: string, event: AccountEvent): Promise<number> => {
    const { rows } = await aside.query(
      `insert into handler_fault as f values ($1, $2, $3, 1)
       on conflict (consumer, event_id, replay) do update set times = f.times + 1 returning times`,
      [consumer, event.id, event.replay ?? 0],
    );
    return rows[0].times;
  };
  return {
    async meet(consumer, event, tx) {
      const { fault } = event.data;
      if (fault === 'poison') {
        const { rowCount } = await tx.query('select from mended where consumer = $1 and event_id = $2', [
          consumer,
          event.id,
        ]);
        if (rowCount === 1) return;
        if ((await count(consumer, event)) === 1) injected('handler always fails (poison)');
        throw new Error('poison');
      }
      if (fault !== 'fails' && fault !== 'hangs') return;
      const times = await count(consumer, event);
      if (times > (event.replay === undefined ? TIMES.live : TIMES.replayed)) return;
      if (times === 1)
        injected(fault === 'fails' ? 'handler fails, then works' : 'handler hangs past its time, then works');
      if (fault === 'fails') throw new Error('a bug of the handler');
      await delay(HANGS_MS);
    },
  };
}
