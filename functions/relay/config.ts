import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { SQSClient } from '@aws-sdk/client-sqs';
import { SealedOutboxError } from '../../shared/errors/index.ts';
import { eventBridgePublisher, type Publisher, sqsPublisher } from '../../shared/outbox/index.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** The environment of the relay is wrong. Thrown at start; nothing was leased or sent. */
export class RelayConfigError extends SealedOutboxError {
  constructor(message: string) {
    super('RELAY_CONFIG', `${message} The relay did not start.`);
  }
}

type DestinationAddress =
  | { readonly kind: 'sqs-fifo' | 'sqs'; readonly url: string }
  /** Name or ARN of the bus. */
  | { readonly kind: 'eventbridge'; readonly bus: string };

export interface RelayConfig {
  readonly destinations: Readonly<Record<string, DestinationAddress>>;
  readonly slot: string;
  readonly mode: 'continuous' | 'drain';
  /** Seconds. */
  readonly maxSeconds: number;
  /** Identity of the database cluster; a relay refuses to work on a restored copy. */
  readonly cluster?: string;
}

/**
 * Reads `OUTBOX_DESTINATIONS` (JSON: name → `{ kind, url }`, or `{ kind: 'eventbridge', bus }`), `OUTBOX_SLOT` (the schedule's name), `RELAY_MODE` (`continuous` or
 * `drain`), `RELAY_MAX_SECONDS` (default 150: two runs a minute apart overlap, and a third starts before the first must end) and
 * `OUTBOX_CLUSTER` (identity of the database cluster, where it is fixed).
 *
 * @throws RelayConfigError (`RELAY_CONFIG`) naming the variable.
 */
export function relayConfig(env: Environment): RelayConfig {
  const mode = env['RELAY_MODE'] ?? 'continuous';
  if (mode !== 'continuous' && mode !== 'drain') throw new RelayConfigError('RELAY_MODE must be continuous or drain.');
  const maxSeconds = Number(env['RELAY_MAX_SECONDS'] ?? 150);
  if (!Number.isFinite(maxSeconds) || maxSeconds < 1)
    throw new RelayConfigError('RELAY_MAX_SECONDS must be a positive number of seconds.');
  const slot = env['OUTBOX_SLOT'];
  if (slot === undefined || slot === '')
    throw new RelayConfigError('OUTBOX_SLOT is not set: give it the name of the schedule.');
  const cluster = env['OUTBOX_CLUSTER'];
  return {
    mode,
    maxSeconds,
    slot,
    destinations: destinations(env['OUTBOX_DESTINATIONS']),
    ...(cluster !== undefined && cluster !== '' && { cluster }),
  };
}

function destinations(json: string | undefined): RelayConfig['destinations'] {
  const form =
    'OUTBOX_DESTINATIONS must be JSON such as {"ledger":{"kind":"sqs-fifo","url":"https://sqs…"},"analytics":{"kind":"eventbridge","bus":"events"}}.';
  let value: unknown;
  try {
    value = JSON.parse(json ?? '');
  } catch {
    throw new RelayConfigError(form);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value) || Object.keys(value).length === 0) {
    throw new RelayConfigError(form);
  }
  const known: Record<string, DestinationAddress> = {};
  for (const [name, entry] of Object.entries(value)) {
    const address = destinationAddress(entry);
    if (address === undefined) throw new RelayConfigError(`${form} The entry "${name}" is not of that form.`);
    known[name] = address;
  }
  return known;
}

function destinationAddress(entry: unknown): DestinationAddress | undefined {
  const { kind, url, bus } = (entry ?? {}) as { kind?: unknown; url?: unknown; bus?: unknown };
  if (kind === 'eventbridge') return typeof bus === 'string' && BUS.test(bus) ? { kind, bus } : undefined;
  if ((kind !== 'sqs-fifo' && kind !== 'sqs') || typeof url !== 'string' || !URL.canParse(url)) return undefined;
  return { kind, url };
}

/** A bus by its name or ARN, as EventBridge takes it. */
const BUS = /^(arn:aws[\w-]*:events:[a-z0-9-]+:\d{12}:event-bus\/)?[/.\-_A-Za-z0-9]{1,256}$/;

/** One client for each service. They do not retry: the relay does, because order and attempts depend on it. */
export function publishers(config: RelayConfig): Record<string, Publisher> {
  const settings = {
    maxAttempts: 1,
    requestHandler: {
      connectionTimeout: 2_000,
      requestTimeout: 5_000,
      httpsAgent: { maxSockets: 64, keepAlive: true },
    },
  };
  const sqs = new SQSClient({ ...settings, useQueueUrlAsEndpoint: false });
  const eventBridge = new EventBridgeClient(settings);
  return Object.fromEntries(
    Object.entries(config.destinations).map(([name, address]) => [
      name,
      address.kind === 'eventbridge'
        ? eventBridgePublisher({ client: eventBridge, bus: address.bus })
        : sqsPublisher({ client: sqs, queueUrl: address.url, fifo: address.kind === 'sqs-fifo' }),
    ]),
  );
}
