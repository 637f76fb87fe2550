import { absorb, type FoundChain, heldOf, isMisplaced, lose, scanned, sendable } from './backlog.ts';
import { isProbing } from './circuit.ts';
import type { Delivery, Found } from './delivery.ts';
import { load } from './find.ts';
import { raiseFloor } from './floors.ts';
import { applyParking, fail, type Lane, settleLater } from './lane-state.ts';

/** Milliseconds between two looks that found nothing; after one that found something, the least. */
export const POLL_MS = { least: 8, most: 250 };
/** Keys looked up by name in one scan at most. With the rows of each it is half a window. */
const WAKE = 500;
/** One scan of so many walks a whole page, whatever is wanted. */
const FULL_WALK = 4;

/** Whether there is room for more, and a use for it. */
export function mayScan({ scanning, backlog, window, circuit, tokens }: Lane): boolean {
  if (scanning !== undefined || tokens.size === 0) return false;
  // Half of it: a look finds whole aggregates, and what then finds no room has been read in vain.
  if (backlog.rows > window.rows / 2 || backlog.bytes > window.bytes / 2) return false;
  // A destination that is away fills no memory beyond what probes need.
  return !isProbing(circuit) || backlog.ready.size === 0;
}

/** When the next scan is due: at once where it is known that there is more. */
export function nextScan({ backlog, parking, scanAt }: Lane): number {
  return backlog.wanted.size > 0 || parking.size > 0 ? 0 : scanAt;
}

/** Looks for more, unless a look is under way or not yet due. */
export function startScan(lane: Lane): void {
  if (!mayScan(lane) || lane.clock.monotonic() < nextScan(lane)) return;
  lane.scanning = scan(lane)
    .catch((error: unknown) => {
      fail(lane, error);
    })
    .finally(() => {
      lane.scanning = undefined;
      lane.bell.ring();
    });
}

async function scan(lane: Lane): Promise<void> {
  const { backlog, db, destination, window, clock, tokens, cursor, floors, work } = lane;
  const wake = [...backlog.wanted].slice(0, WAKE);
  for (const key of wake) backlog.wanted.delete(key);
  lane.scans += 1;
  const number = lane.scans;
  const { rowsOfAggregate: cut } = window;
  // With enough that is known to be there, most scans walk on by a step only: they would find more than there is room for. Not all of them, or
  // aggregates that always have more would keep a new one from being met.
  const page = wake.length < WAKE || number % FULL_WALK === 0 ? window.page : 1;
  const partitions = [...tokens.keys()];
  const result = await work.find(db, { destination, partitions, cursor, wake, page, cut, floors: floors.far });
  for (const { key, rows } of result.chains) {
    if (destination.ordered && rows[0] !== undefined) raiseFloor(floors, key, rows[0].sequence);
  }
  const chains = result.chains.filter((chain) => tokens.has(chain.rows[0]?.partition ?? -1));

  const loaded = new Map<string, Delivery>();
  const missing = toLoad(lane, chains, number, loaded);
  for (const [position, delivery] of await load(db, missing, lane.source)) loaded.set(position, delivery);

  // The lease changed meanwhile: what was found may be somebody else's by now. The walk goes on from where it was, or anew.
  if (lane.tokens !== tokens) {
    for (const key of wake) backlog.wanted.add(key);
    return;
  }
  const now = clock.monotonic();
  parkLost(
    lane,
    missing.filter((row) => !loaded.has(row.position)),
  );
  for (const chain of chains) absorb(backlog, chain, number, loaded, now);
  scanned(backlog, number);
  lane.cursor = work.advance(cursor, result.scan, page);

  await applyParking(
    lane,
    chains.filter(isMisplaced).map((chain) => chain.key),
  );

  lane.exhausted = result.scan.rows < page && chains.length === 0;
  if (chains.length > 0) lane.pollMs = POLL_MS.least;
  const full = result.scan.rows >= page || backlog.wanted.size > 0;
  lane.scanAt = full ? 0 : clock.monotonic() + lane.pollMs;
  if (chains.length === 0) lane.pollMs = Math.min(lane.pollMs * 2, POLL_MS.most);
}

/** Picks what has to be read for the chains, within the window's rows and bytes; puts what is at hand into `loaded`. */
function toLoad(lane: Lane, chains: readonly FoundChain[], scanNumber: number, loaded: Map<string, Delivery>): Found[] {
  const { backlog, window } = lane;
  const missing: Found[] = [];
  let bytes = backlog.bytes;
  for (const chain of chains) {
    const atHand = heldOf(backlog, chain.key);
    const flying = backlog.chains.get(chain.key)?.flying?.position;
    for (const row of sendable(backlog, chain, scanNumber, flying).rows) {
      const delivery = atHand.get(row.position);
      if (delivery !== undefined) {
        loaded.set(row.position, delivery);
        continue;
      }
      if (bytes >= window.bytes || backlog.rows + missing.length >= window.rows) break;
      bytes += row.bytes;
      missing.push(row);
    }
  }
  return missing;
}

/** Events that are gone from the database although something still waits to be sent. It would be looked up again and again. */
function parkLost(lane: Lane, lost: readonly Found[]): void {
  for (const delivery of lost) {
    lose(lane.backlog, delivery.position);
    settleLater(lane, delivery, { kind: 'parked', error: 'EventMissing: its row in outbox.event is gone' });
    lane.log.error('parked: the event of this delivery is gone; the later ones of its aggregate wait', {
      destination: lane.destination.name,
      eventId: delivery.eventId,
      position: delivery.position,
    });
  }
}
