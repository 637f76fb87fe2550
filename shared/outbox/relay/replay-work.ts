import { type FoundChain, isMisplaced } from './backlog.ts';
import type { Clock } from './clock.ts';
import { type Cursor, LAST } from './cursor.ts';
import { chainsOf } from './find.ts';
import { type Parking, PARKING_ROWS, type Work } from './work.ts';

/** The walk begins anew this often: it meets what was redriven, and what another relay left. Milliseconds. */
const WALK_MS = 1_000;

export interface ReplayWork extends Work {
  /** Whether the replay was paused, cancelled or done when last looked at. */
  readonly stopped: boolean;
  /** Whether the last walk from end to end met nothing that waits. */
  readonly empty: boolean;
}

/**
 * The deliveries of one replay. All of them are written before the first is sent, so a walk along their positions misses nothing that was
 * committed late; it is begun anew now and then instead.
 */
export function replayWork(number: number, clock: Clock): ReplayWork {
  let walkAt = 0;
  let stopped = false;
  let empty = false;
  /** Parked heads that were passed on once: their policy may have been left undone by a relay that died. */
  const parkedHeads = new Set<string>();

  /** A head that waits, or is parked with all behind it blocked, is nothing to look at again and again. */
  const isNews = (chain: FoundChain): boolean => {
    const [head] = chain.rows;
    if (head === undefined || head.dueInMs > 0) return false;
    if (head.state === 'pending') return true;
    if (parkedHeads.has(head.position)) return isMisplaced(chain);
    parkedHeads.add(head.position);
    return true;
  };

  return {
    get stopped() {
      return stopped;
    },
    get empty() {
      return empty;
    },
    async find(db, { destination, partitions, cursor, wake, page, cut }) {
      const atEnd = cursor.position === LAST;
      const again = atEnd && clock.monotonic() >= walkAt;
      if (atEnd && !again && wake.length === 0) return { scan: NOTHING, chains: [] };
      const after = again ? '0' : cursor.position;
      if (after === '0') walkAt = clock.monotonic() + WALK_MS;
      const { rows } = await db.query(
        `select key, position, event_id, partition, sequence, attempts, run, bytes, state, due_in_ms, scan
           from outbox.find_replay($1, $2, $3, $4, $5, $6, $7, $8)`,
        [
          number,
          destination.ordered,
          partitions,
          after,
          destination.ordered ? wake : [],
          destination.ordered ? [] : wake,
          page,
          cut,
        ],
      );
      const { runs, rows: walked, position } = rows[0].scan;
      stopped = !runs;
      empty = runs && after === '0' && walked === 0;
      const chains = chainsOf(rows, destination, cut)
        .filter(isNews)
        .map(({ key, rows: found, cut: more }) => ({
          key,
          rows: found.map((row) => ({ ...row, replay: number })),
          cut: more,
        }));
      return { scan: { ...NOTHING, rows: walked, position }, chains };
    },
    advance: (cursor, scan, page): Cursor =>
      scan === NOTHING
        ? cursor
        : { ...cursor, position: scan.rows >= page && scan.position !== null ? scan.position : LAST },
    async applyParking(db, _, keys) {
      const { rows } = await db.query(
        'select key, more, reached_now as reached from outbox.apply_replay_parking($1, $2, $3, $4)',
        [number, [...keys.keys()], [...keys.values()], PARKING_ROWS],
      );
      return rows as Parking[];
    },
  };
}

const NOTHING = { snapshot: '', rows: 0, xid: null, position: null, open: [] };
