import { SealedOutboxError } from '../../shared/errors/index.ts';

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
}

const FORM =
  'OPERATOR_QUEUES must be JSON such as {"ledger":{"queue":"https://sqs…","deadLetters":"https://sqs…"}}: the deployment writes it.';

/**
 * Reads `OPERATOR_QUEUES` (JSON: name → `{ queue, deadLetters }`, URLs; default none) and `OPERATOR_INBOX` (`false` where consumers have a
 * database of their own).
 *
 * @throws OperatorConfigError (`OPERATOR_CONFIG`) naming the variable
 */
export function operatorConfig(env: Readonly<Record<string, string | undefined>>): OperatorConfig {
  return { queues: queues(env['OPERATOR_QUEUES'] ?? '{}'), inbox: env['OPERATOR_INBOX'] !== 'false' };
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
