import {
  createErasure,
  defineClasses,
  type Erasure,
  type ErasureLog,
  type ErasureOptions,
  erasureWalk,
  type Kms,
} from '../../shared/sealing/index.ts';
import { noMetrics } from '../../shared/telemetry/index.ts';
import { VAULT } from './clients.ts';

const DAY_SECONDS = 86_400;

/** What erases persons in one database of the drill, by the log that lies outside of all of them. */
export interface DrillErasures {
  /** At once. */
  readonly now: Erasure;
  /** After a day, until which it can be taken back. */
  readonly inADay: Erasure;
  /** What the janitor does. @returns how many entries of the log it has done that the database had not */
  catchUp(): Promise<number>;
  /** Up to which entry the database is done, and how many keys a person still has. */
  standing(person: string): Promise<{ readonly through: number; readonly keys: number }>;
}

export function drillErasures(pool: ErasureOptions['pool'], kms: Kms, log: ErasureLog): DrillErasures {
  const options: ErasureOptions = {
    name: VAULT,
    pool,
    kms,
    log,
    classes: defineClasses({ contact: { erase: 'onRequest' }, tax: { erase: { after: 3653 } } }),
    erasable: [],
    // There is no outbox in the drill: whoever keeps copies is not told.
    announce: async () => {},
  };
  return {
    now: createErasure(options),
    inADay: createErasure({ ...options, delaySeconds: DAY_SECONDS }),
    async catchUp() {
      const walk = erasureWalk({ ...options, metrics: noMetrics });
      await walk.begin();
      let applied = 0;
      for (let more = true; more;) {
        const page = await walk.page();
        applied += page.removed['applied'] ?? 0;
        ({ more } = page);
      }
      return applied;
    },
    async standing(person) {
      const { rows } = await pool.query(
        `select (select through::float8 from vault.erasure_position) as through,
                (select count(*)::integer from vault.subject_key where subject_id = $1 and wrapped is not null) as keys`,
        [person],
      );
      return rows[0] as { through: number; keys: number };
    },
  };
}
