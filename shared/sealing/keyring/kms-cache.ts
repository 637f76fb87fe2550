import { createSecretKey, type KeyObject } from 'node:crypto';
import { SealingError } from '../errors.ts';
import { ageOf, type KeyringClock, MINUTE, type Moment, momentOf } from './age.ts';
import type { Kms, KmsContext, WrappedKey } from './kms.ts';

/** From this age on KMS is asked again, while the key is still used. */
const REFRESH_MS = 10 * MINUTE;
/** From this age on the key is not used before KMS has answered. */
const LIMIT_MS = 15 * MINUTE;
/** While KMS is throttled or cannot be reached, and only then, the key is used up to this age. */
const STALE_MS = 60 * MINUTE;
/** KMS was away: how long until it is asked again. */
const PAUSE_MS = 10_000;

/** Keys that KMS has unwrapped, for minutes. `id` names the key, one text for each. */
export interface KmsCache {
  /** @throws SealingError what `Kms.unwrap` rejects with */
  open(id: string, key: WrappedKey, context: KmsContext): Promise<KeyObject>;
  /** Keeps a key that KMS has just made. */
  keep(id: string, made: UnwrappedKey): void;
}

export interface UnwrappedKey {
  readonly secret: KeyObject;
  /** What KMS was asked to unwrap. */
  readonly wrapped: Uint8Array;
  /** Before KMS was asked. */
  readonly askedAt: Moment;
}

interface Entry extends UnwrappedKey {
  /** When KMS was last found away. */
  awayAt: Moment | null;
}

export function createKmsCache(kms: Kms, clock: KeyringClock): KmsCache {
  const entries = new Map<string, Entry>();
  const flights = new Map<string, Promise<KeyObject>>();

  const unwrap = async (id: string, key: WrappedKey, context: KmsContext): Promise<KeyObject> => {
    const askedAt = momentOf(clock);
    try {
      const secret = secretKey(await kms.unwrap(key, context));
      entries.set(id, { secret, wrapped: key.wrapped, askedAt, awayAt: null });
      return secret;
    } catch (error) {
      const entry = entries.get(id);
      if (entry !== undefined && isAway(error)) entry.awayAt = momentOf(clock);
      else entries.delete(id);
      throw error;
    }
  };

  /** However many need a key at once, KMS is asked once. */
  const refresh = (id: string, key: WrappedKey, context: KmsContext): Promise<KeyObject> => {
    const what = `${id} ${Buffer.from(key.wrapped).toString('base64')}`;
    const flight = flights.get(what) ?? unwrap(id, key, context).finally(() => flights.delete(what));
    flights.set(what, flight);
    return flight;
  };

  return {
    async open(id, key, context) {
      const entry = entries.get(id);
      // Restored from an older backup, a vault may give a version a second time: to another key.
      if (entry === undefined || Buffer.compare(entry.wrapped, key.wrapped) !== 0) return refresh(id, key, context);
      const age = ageOf(clock, entry.askedAt);
      if (age < REFRESH_MS) return entry.secret;
      const paused = entry.awayAt !== null && ageOf(clock, entry.awayAt) < PAUSE_MS;
      if (age < STALE_MS && paused) return entry.secret;
      if (age < LIMIT_MS) {
        // Whoever comes next meets the answer.
        refresh(id, key, context).catch(() => {});
        return entry.secret;
      }
      try {
        return await refresh(id, key, context);
      } catch (error) {
        if (isAway(error) && ageOf(clock, entry.askedAt) < STALE_MS) return entry.secret;
        throw error;
      }
    },
    keep(id, made) {
      entries.set(id, { ...made, awayAt: null });
    },
  };
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
