import { createSecretKey, type KeyObject } from 'node:crypto';
import { SealingError } from '../errors.ts';
import { ageOf, type KeyringClock, MINUTE, type Moment, momentOf } from './age.ts';
import { branchContext, type Kms } from './kms.ts';
import type { BranchRow, Vault } from './vault.ts';

/** From this age on KMS is asked again, while the key is still used. */
const REFRESH_MS = 10 * MINUTE;
/** From this age on the key is not used before KMS has answered. */
const LIMIT_MS = 15 * MINUTE;
/** While KMS is throttled or cannot be reached, and only then, the key is used up to this age. */
const STALE_MS = 60 * MINUTE;
/** KMS was away: how long until it is asked again. */
const PAUSE_MS = 10_000;

/** Unwrapped branch keys of one vault. */
export interface BranchKeys {
  /** @throws SealingError what `Kms.unwrap` rejects with */
  open(row: BranchRow): Promise<KeyObject>;
  /** Makes the first branch key of a class, and answers the one that stands: another process may have been faster. */
  createFirst(className: string): Promise<BranchRow>;
}

interface Entry {
  readonly secret: KeyObject;
  /** What KMS was asked to unwrap. */
  readonly wrapped: Uint8Array;
  /** Before KMS was asked. */
  readonly askedAt: Moment;
  /** When KMS was last found away. */
  awayAt: Moment | null;
}

export function createBranchKeys(name: string, kms: Kms, vault: Vault, clock: KeyringClock): BranchKeys {
  const entries = new Map<string, Entry>();
  const flights = new Map<string, Promise<KeyObject>>();
  const firsts = new Map<string, Promise<BranchRow>>();

  const unwrap = async (row: BranchRow, id: string): Promise<KeyObject> => {
    const askedAt = momentOf(clock);
    try {
      const secret = secretKey(await kms.unwrap(row, branchContext(name, row.class, row.version)));
      entries.set(id, { secret, wrapped: row.wrapped, askedAt, awayAt: null });
      return secret;
    } catch (error) {
      const entry = entries.get(id);
      if (entry !== undefined && isAway(error)) entry.awayAt = momentOf(clock);
      else entries.delete(id);
      throw error;
    }
  };

  /** However many need a key at once, KMS is asked once. */
  const refresh = (row: BranchRow, id: string): Promise<KeyObject> => {
    const what = `${id} ${Buffer.from(row.wrapped).toString('base64')}`;
    const flight = flights.get(what) ?? unwrap(row, id).finally(() => flights.delete(what));
    flights.set(what, flight);
    return flight;
  };

  return {
    async open(row) {
      const id = idOf(row.class, row.version);
      const entry = entries.get(id);
      // Restored from an older backup, a vault may give a version a second time: to another key.
      if (entry === undefined || Buffer.compare(entry.wrapped, row.wrapped) !== 0) return refresh(row, id);
      const age = ageOf(clock, entry.askedAt);
      if (age < REFRESH_MS) return entry.secret;
      const paused = entry.awayAt !== null && ageOf(clock, entry.awayAt) < PAUSE_MS;
      if (age < STALE_MS && paused) return entry.secret;
      if (age < LIMIT_MS) {
        // Whoever comes next meets the answer.
        refresh(row, id).catch(() => {});
        return entry.secret;
      }
      try {
        return await refresh(row, id);
      } catch (error) {
        if (isAway(error) && ageOf(clock, entry.askedAt) < STALE_MS) return entry.secret;
        throw error;
      }
    },

    createFirst(className) {
      const create = async (): Promise<BranchRow> => {
        const askedAt = momentOf(clock);
        const version = 1;
        const { plaintext, kmsKey, wrapped } = await kms.generate(branchContext(name, className, version));
        const secret = secretKey(plaintext);
        const standing = await vault.createBranch({ class: className, version, active: true, kmsKey, wrapped });
        const isOurs = standing.version === version && Buffer.compare(standing.wrapped, wrapped) === 0;
        if (isOurs) entries.set(idOf(className, version), { secret, wrapped, askedAt, awayAt: null });
        return standing;
      };
      // Kept: whoever has read the vault before and comes after it must not make another.
      const first = firsts.get(className) ?? create();
      firsts.set(className, first);
      first.catch(() => firsts.delete(className));
      return first;
    },
  };
}

function idOf(className: string, version: number): string {
  return `${className} ${version}`;
}

/** The bytes are not needed any more: what stays of them is in the key object. */
export function secretKey(plaintext: Uint8Array): KeyObject {
  const secret = createSecretKey(plaintext);
  plaintext.fill(0);
  return secret;
}

/** Throttled or out of reach: says nothing about whether the key may be used. */
function isAway(error: unknown): boolean {
  return error instanceof SealingError && (error.code === 'SEALING_THROTTLED' || error.code === 'SEALING_UNAVAILABLE');
}
