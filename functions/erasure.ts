import type { Connections, Queryable } from '../shared/database/index.ts';
import {
  type Announce,
  createErasure,
  type Erasure,
  type ErasureOptions,
  type EraseRequest,
  personErased,
  type Subject,
} from '../shared/sealing/index.ts';
import { type FunctionKeys, KeyringConfigError } from './keyring.ts';
import { functionMetrics } from './metrics.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Writes `person.erased` without a catalogue: the database knows the type, where `personErasedEvent` is in it. */
export const announceErased: Announce = async (tx, erased) => {
  const { type, aggregate, data } = personErased(erased);
  const event = { type, schema_version: 1, aggregate_type: aggregate.type, aggregate_id: aggregate.id, data };
  await tx.query('select from outbox.append($1::jsonb)', [JSON.stringify([event])]);
};

/**
 * From when the days count for which classes of a person's data must be kept, as the service says.
 *
 * @param name of its SQL function, `schema.name(kind text, id text) returns jsonb`: `{"class": time}`
 */
export async function keptSince(db: Queryable, name: string, { kind, id }: Subject): Promise<EraseRequest['since']> {
  const { rows } = await db.query(`select ${name}($1, $2) as since`, [kind, id]);
  const since = rows[0].since as Readonly<Record<string, string>>;
  return Object.fromEntries(Object.entries(since).map(([className, time]) => [className, new Date(time)]));
}

/**
 * What erases persons in a function. `ERASURE_DELAY_SECONDS` (default 0) is how long an erasure can be cancelled before it is done.
 *
 * Counts `ErasuresRequested`, under the `Installation` that `OUTBOX_INSTALLATION` names.
 *
 * @throws KeyringConfigError (`KEYRING_CONFIG`) where `SEALING_ERASURE_LOG` is missing, or the delay is no number of seconds
 */
export function functionErasure(
  pool: Connections & Queryable,
  { name, kms, erasures }: Pick<FunctionKeys, 'name' | 'kms' | 'erasures'>,
  declared: Pick<ErasureOptions, 'classes' | 'erasable'>,
  env: Environment = process.env,
): Erasure {
  if (erasures === undefined) {
    throw new KeyringConfigError(
      'SEALING_ERASURE_LOG is not set: declare erases: true where the function gets its login.',
    );
  }
  const delay = env['ERASURE_DELAY_SECONDS'] ?? '0';
  if (!/^[0-9]{1,8}$/.test(delay)) throw new KeyringConfigError('ERASURE_DELAY_SECONDS must be whole seconds.');
  const metrics = functionMetrics(env);
  return createErasure({
    ...declared,
    name,
    pool,
    kms,
    log: erasures,
    announce: announceErased,
    delaySeconds: Number(delay),
    metrics,
  });
}
