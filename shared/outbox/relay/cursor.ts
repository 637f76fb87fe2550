/**
 * How far a lane has walked along the pending deliveries of its destination: along (transaction id, position), which is the order of
 * no commit. What was still open when the cursor passed is remembered, and looked at again until it ended.
 */
export interface Cursor {
  /** 64-bit integers as text. */
  readonly xid: string;
  readonly position: string;
  /** Transactions at or below the cursor that were in progress: xid → the position up to which their rows were read. */
  readonly open: ReadonlyMap<string, string>;
}

/** What one call of `outbox.find` says of its scan. */
export interface Scan {
  /** `xmin:xmax:xip,xip`, as PostgreSQL writes a snapshot. */
  readonly snapshot: string;
  /** Rows of the page, and the last of them. */
  readonly rows: number;
  readonly xid: string | null;
  readonly position: string | null;
  /** One entry for each open transaction that was asked for. */
  readonly open: readonly { readonly xid: string; readonly full: boolean; readonly position: string }[];
}

/** Past every position of a transaction id that was read to its end. */
export const LAST = '9223372036854775807';

/** Before everything. */
export const START: Cursor = { xid: '0', position: '0', open: new Map() };

/** Before the rows of transaction `xid`, and with those of the transactions in `open` still to be read. */
export function cursorBefore(xid: string, open: readonly string[]): Cursor {
  return { xid: String(BigInt(xid) - 1n), position: LAST, open: new Map(open.map((it) => [it, '0'])) };
}

/**
 * The cursor after a scan. A full page ends at its last row. Otherwise everything visible was read, and the cursor goes to the end of the
 * snapshot. A transaction at or below the cursor was either read, or is remembered as open: nothing is missed, and no dead index
 * entry below the cursor is visited again.
 */
export function advanceCursor(cursor: Cursor, scan: Scan, page: number): Cursor {
  const [, xmax = '0', list = ''] = scan.snapshot.split(':');
  const inProgress = new Set(list === '' ? [] : list.split(','));
  const full = scan.rows >= page && scan.xid !== null && scan.position !== null;
  const reached = full ? BigInt(scan.xid) : max(BigInt(cursor.xid), BigInt(xmax) - 1n);

  const open = new Map<string, string>();
  for (const { xid, full: more, position } of scan.open) {
    // Still running, or not read to its end.
    if (inProgress.has(xid) || more) open.set(xid, position);
  }
  for (const xid of inProgress) {
    if (BigInt(xid) <= reached && !open.has(xid)) open.set(xid, cursor.open.get(xid) ?? '0');
  }
  if (full) return { xid: scan.xid, position: scan.position, open };
  return { xid: String(reached), position: LAST, open };
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
