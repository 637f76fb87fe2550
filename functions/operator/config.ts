import { SealedOutboxError } from '../../shared/errors/index.ts';
import { type ArchiveAddress, placeOf } from '../archive-address.ts';
import { type Classes, defineClasses, defineErasable, type ErasableColumns } from '../../shared/sealing/index.ts';

/** The environment of the operator's function is wrong. Thrown at start; nothing was done. */
export class OperatorConfigError extends SealedOutboxError {
  constructor(message: string) {
    super('OPERATOR_CONFIG', `${message} Nothing was done.`);
  }
}

/** URLs of a queue and of where its dead letters go. */
export interface QueuePair {
  readonly queue: string;
  readonly deadLetters: string;
}

export interface OperatorConfig {
  readonly queues: Readonly<Record<string, QueuePair>>;
  /** Whether the consumers' tables are in this database. */
  readonly inbox: boolean;
  /** Whether the vault is, so that it asks for rotation of keys. */
  readonly vault: boolean;
  /** Undefined: it erases nobody. */
  readonly erases?: OperatorErases | undefined;
  /** Undefined: it brings no archived event back. */
  readonly archive?: ArchiveAddress | undefined;
}

export interface OperatorErases {
  readonly classes: Classes;
  readonly erasable: readonly ErasableColumns[];
  /** SQL function of the service, `schema.name(kind text, id text) returns jsonb`: from when the days count for which classes must be kept. */
  readonly keptSince?: string;
}

const FORM =
  'OPERATOR_QUEUES must be JSON such as {"ledger":{"queue":"https://sqs…","deadLetters":"https://sqs…"}}: the deployment writes it.';

/**
 * Reads `OPERATOR_QUEUES` (JSON: name → `{ queue, deadLetters }`, URLs; default none), `OPERATOR_INBOX` (`false` where consumers have a
 * database of their own), `OPERATOR_VAULT` (`true` where it asks for rotation of keys) and `OPERATOR_ERASES` (JSON: `{ classes, erasable, keptSince }`, as `defineClasses` and
 * `defineErasable` take them; default none), `OPERATOR_ARCHIVE` (`none`, `s3://bucket` or `file:///folder`).
 *
 * @throws OperatorConfigError (`OPERATOR_CONFIG`) naming the variable
 */
export function operatorConfig(env: Readonly<Record<string, string | undefined>>): OperatorConfig {
  return {
    queues: queues(env['OPERATOR_QUEUES'] ?? '{}'),
    inbox: env['OPERATOR_INBOX'] !== 'false',
    vault: env['OPERATOR_VAULT'] === 'true',
    erases: erases(env['OPERATOR_ERASES'] ?? ''),
    archive: archive(env['OPERATOR_ARCHIVE'] ?? 'none'),
  };
}

function archive(value: string): ArchiveAddress | undefined {
  if (value === 'none') return undefined;
  const place = placeOf(value);
  if (place === undefined)
    throw new OperatorConfigError('OPERATOR_ARCHIVE must be none, s3://bucket or file:///folder.');
  return place;
}

function erases(json: string): OperatorErases | undefined {
  if (json === '') return undefined;
  try {
    const { classes, erasable, keptSince } = JSON.parse(json) as OperatorErases;
    if (keptSince !== undefined && !/^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$/.test(keptSince)) throw new TypeError();
    return {
      classes: defineClasses(classes),
      erasable: defineErasable(erasable),
      ...(keptSince !== undefined && { keptSince }),
    };
  } catch (error) {
    const why = error instanceof SealedOutboxError ? error.message : 'the deployment writes it.';
    throw new OperatorConfigError(`OPERATOR_ERASES must be JSON of { classes, erasable, keptSince }: ${why}`);
  }
}

function queues(json: string): OperatorConfig['queues'] {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new OperatorConfigError(FORM);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new OperatorConfigError(FORM);
  for (const pair of Object.values(value)) {
    const { queue, deadLetters } = (pair ?? {}) as { queue?: unknown; deadLetters?: unknown };
    for (const url of [queue, deadLetters]) {
      if (typeof url !== 'string' || !URL.canParse(url)) throw new OperatorConfigError(FORM);
    }
  }
  return value as OperatorConfig['queues'];
}
