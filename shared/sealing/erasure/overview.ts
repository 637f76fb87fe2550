import { inVault } from '../keyring/postgres-vault.ts';
import type { RotationConnection } from '../rotation/postgres-rotation.ts';

/** How erasures stand, without anybody's name. */
export interface ErasureOverview {
  /** Persons whose delay runs. */
  readonly waiting: number;
  /** Persons who should be erased by now. */
  readonly overdue: number;
  readonly overdueSeconds: number;
  /** Persons who are erased, and of whom keys are kept because they must be. */
  readonly kept: number;
  /** When the next of those are destroyed; null: none is kept. */
  readonly nextDestroyed: Date | null;
  /** All entries of the log up to this number are done in this database; 64-bit number as text. */
  readonly logNumber: string;
}

/** Role: `vault_operator`. @throws SealingError `SEALING_DENIED`, `SEALING_UNAVAILABLE` */
export async function readErasureOverview(db: RotationConnection): Promise<ErasureOverview> {
  const { rows } = await inVault(
    db.query(
      `select waiting, overdue, overdue_for as "overdueSeconds", kept, next_destroyed as "nextDestroyed",
              log_number::text as "logNumber"
         from vault.erasure_overview()`,
      [],
    ),
  );
  return rows[0] as ErasureOverview;
}
