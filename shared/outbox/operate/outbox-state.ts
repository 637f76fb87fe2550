import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';

export interface Installation {
  /** CloudEvents source of the events that are written here. */
  readonly source: string;
  /** Identity of the database cluster, where one was fixed. */
  readonly cluster: string | null;
  /** How often the sequences were raised by a restore: their high bits. */
  readonly epoch: number;
  readonly partitions: number;
  /** Partitions that a live relay holds now. */
  readonly leased: number;
}

export interface KnownRelay {
  readonly slot: string;
  readonly startedAt: Date;
  /** Since it was last seen. */
  readonly silenceSeconds: number;
  /** It has handed over and is gone. */
  readonly ended: boolean;
  /** Partitions that it holds now. */
  readonly partitions: number;
}

/** Whose database this is, and the relays of the last day, the last seen first. Role: `outbox_operator`. */
export async function readInstallation(
  db: Queryable,
): Promise<{ readonly installation: Installation; readonly relays: readonly KnownRelay[] }> {
  const [installation] = await call(
    db,
    `select source, cluster, epoch, partitions::float8 as partitions, leased::float8 as leased from outbox.show_installation()`,
    [],
  );
  const relays = await call(
    db,
    `select slot, started_at as "startedAt", silence as "silenceSeconds", ended, partitions::float8 as partitions from outbox.list_relays(10)`,
    [],
  );
  return { installation, relays: relays as KnownRelay[] };
}
