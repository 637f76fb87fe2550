import type pg from 'pg';
import type { QueueAddress } from '../harness/queue.ts';
import type { Connection } from '../harness/server.ts';

export const PEERS = ['graphile-worker', 'pg-boss', 'pg-transactional-outbox'] as const;

export interface PeerStart {
  readonly peer: (typeof PEERS)[number];
  readonly connection: Connection;
  readonly queue: QueueAddress;
  readonly events: number;
  readonly aggregates: number;
  /** Length of the text in `data`. */
  readonly bytes: number;
  /** What the peer orders by has this many values: as many as aggregates, or fewer that aggregates share. */
  readonly keys: number;
}

/** What a peer's job carries. */
export interface PeerMessage {
  readonly id: string;
  readonly group: string;
  /** A decimal in text, as our envelope has it, so that the queue sees the order. */
  readonly sequence: string;
  readonly data: unknown;
}

/** Resolves when the queue has it. */
export type Send = (message: PeerMessage) => Promise<void>;

export interface Peer {
  /** Installs the peer's own schema, and the events as its users would have written them. */
  prepare(start: PeerStart, admin: pg.Client): Promise<void>;
  /** Begins to send them. */
  start(start: PeerStart, send: Send): Promise<void>;
}

/** Jobs at once: what 32 calls of ten carry. */
export const AT_ONCE = 320;
export const CONNECTIONS = 20;

/** One `PeerMessage` per event as `payload`, with its id, group and key, oldest first. */
export function messages({ events, aggregates, bytes, keys }: PeerStart): string {
  return `
  select m.n, m.id, m.group_id, m.key, jsonb_build_object(
           'id', m.id, 'group', m.group_id, 'sequence', (m.n / ${aggregates} + 1)::text,
           'data', jsonb_build_object('text', repeat('x', ${bytes}))) as payload
    from (select n, gen_random_uuid() as id, 'thing-' || lpad((n % ${aggregates})::text, 6, '0') as group_id,
                 'key-' || n % ${aggregates} % ${keys} as key
            from generate_series(0, ${events - 1}) n) m
   order by m.n`;
}
