import { type Stage, stages } from '../stages.ts';
import { kafkaLines } from './kafka.ts';
import type { Price, PriceName, Prices } from './prices.ts';
import { DAYS, HOURS, type Traffic, trafficOf, type Workload } from './traffic.ts';

export const PARTS = [
  'database',
  'network',
  'relay',
  'queues and bus',
  'consumers',
  'watching',
  'keys',
  'keeping',
  'writer',
  'Kafka',
] as const;
export type Part = (typeof PARTS)[number];

export interface Line {
  readonly part: Part;
  readonly what: string;
  /** In single units, such as requests: the price says how many of them it is for. */
  readonly quantity: number;
  readonly price: PriceName;
  readonly usd: number;
}

export interface Bill {
  readonly workload: Workload;
  readonly traffic: Traffic;
  readonly lines: readonly Line[];
  readonly usd: number;
  /** The same with Debezium on MSK in place of relay, queues and bus. */
  readonly kafka: { readonly lines: readonly Line[]; readonly usd: number };
}

type Quantity = Omit<Line, 'usd'>;

/** Parts that Debezium and Kafka take the place of. Consumers, writer, database and what watches them remain as they are. */
const REPLACED: ReadonlySet<Part> = new Set(['relay', 'queues and bus']);

/** The bill of an average month. A function of its arguments and of the stages in `infra/stages.ts`. */
export function billOf(workload: Workload, prices: Prices): Bill {
  const stage = stages[workload.stage];
  const traffic = trafficOf(workload, stage);
  const priced = (all: readonly Quantity[]): Line[] =>
    all.map((line) => ({ ...line, usd: amount(line.quantity, prices[line.price]) })).filter(({ usd }) => usd > 0);
  const lines = priced(quantities(workload, traffic, stage));
  const instead = priced(kafkaLines(workload, traffic));
  const rest = lines.filter(({ part }) => !REPLACED.has(part));
  return { workload, traffic, lines, usd: sum(lines), kafka: { lines: instead, usd: sum([...rest, ...instead]) } };
}

function amount(quantity: number, { usd, of }: Price): number {
  return (quantity / of) * usd;
}

export function sum(lines: readonly Line[]): number {
  return lines.reduce((total, { usd }) => total + usd, 0);
}

/** Runs of what is scheduled: every minute, every five minutes. */
const MINUTES = 60 * HOURS;
const FIVE_MINUTES = 12 * HOURS;
const CONSUMERS = 3;
const GB = 1e9;

/** Gigabytes of memory, as the constructs have them; tests hold them against the templates. */
export const MEMORY = { relay: 1769 / 1024, monitor: 0.5, consumer: 0.5, janitor: 1, api: 1 } as const;
/** Metrics with their dimensions, as docs/observability.md lists them, and alarms, both rounded up. */
const METRICS = 95;
const ALARMS = 80;

function quantities(workload: Workload, traffic: Traffic, stage: Stage): Quantity[] {
  const { events, deliveriesPerEvent, messageBytes, invocations, perInvocation } = traffic;
  const zones = stage.network?.functionZones ?? 1;
  const deliveries = events * deliveriesPerEvent;
  // A run that drains: a second and a half to start, connect and look, then 3,000 messages a second. One that goes on is always there.
  const relaySeconds = stage.relayMode === 'drain' ? MINUTES * 1.5 + deliveries / 3000 : HOURS * 3600;
  // 15 ms of an invocation, 10 ms of a message; and the schedule that drains what is held.
  const consumerSeconds = invocations * (0.015 + 0.01 * perInvocation) + FIVE_MINUTES * CONSUMERS * 0.1;
  // START, END and REPORT, and a line of metrics; the monitor writes a dozen metrics for each destination and consumer.
  const logs = invocations * 1350 + MINUTES * (5000 + 1500) + events * 750 + FIVE_MINUTES * CONSUMERS * 500;
  const line = (part: Part, what: string, price: PriceName, quantity: number): Quantity => ({
    part,
    what,
    price,
    quantity,
  });
  return [
    ...databaseLines(workload, traffic, stage),
    line('network', `endpoints of SQS, EventBridge and KMS in ${zones} zone(s)`, 'endpoint-hour', 3 * zones * HOURS),
    line('network', 'what goes through them', 'endpoint-gb', (deliveries * messageBytes) / GB),
    line('network', 'NAT gateway, for the mails', 'nat-hour', HOURS),
    line('network', 'its address', 'address-hour', HOURS),
    line(
      'network',
      'between zones, both directions',
      'between-zones',
      zones === 1 ? 0 : (events * messageBytes * (1 + 2 * deliveriesPerEvent) * 2 * 2) / 3 / GB,
    ),
    line(
      'relay',
      stage.relayMode === 'drain' ? 'a run each minute' : 'always one run',
      'lambda-gb-second',
      relaySeconds * MEMORY.relay,
    ),
    line('relay', 'starts', 'lambda-request', MINUTES),
    line('queues and bus', 'FIFO queue: sent, received, deleted', 'sqs-fifo', traffic.fifoRequests),
    line('queues and bus', 'standard queues: sent, received, deleted', 'sqs-standard', traffic.standardRequests),
    line('queues and bus', 'events on the bus', 'eventbridge', traffic.busEvents),
    line('consumers', 'work', 'lambda-gb-second', consumerSeconds * MEMORY.consumer),
    line('consumers', 'invocations', 'lambda-request', invocations + FIVE_MINUTES * CONSUMERS),
    line('watching', 'log lines', 'log-gb', logs / GB),
    // Compressed to a sixth, and kept as long as the stage says.
    line('watching', 'log lines kept', 'log-storage', (logs / GB / 6) * (stage.logRetention / DAYS)),
    line('watching', 'metrics', 'metric', METRICS),
    line('watching', 'alarms', 'alarm', ALARMS),
    line('watching', 'dashboard', 'dashboard', 1),
    line('watching', 'monitor', 'lambda-gb-second', MINUTES * 0.3 * MEMORY.monitor),
    line('keys', 'of the vault and of the database', 'kms-key', 2),
    // Each sandbox asks for each of its classes every ten minutes; persons ask for nothing.
    line('keys', 'requests', 'kms-request', 10 * 3 * 6 * HOURS),
    line('keeping', 'janitor', 'lambda-gb-second', (FIVE_MINUTES * 2 + deliveries / 1000) * MEMORY.janitor),
    ...(stage.retention.archive ? archiveLines(traffic, workload) : []),
    line('writer', 'API requests, one an event', 'api-request', events),
    line('writer', 'function of the API', 'lambda-gb-second', events * 0.03 * MEMORY.api),
    line('writer', 'its invocations', 'lambda-request', events),
  ];
}

/** Server time of an event in seconds, over its life: append (0.8 ms measured) with its commit, and each delivery with its effect. */
const DATABASE_SECONDS = { append: 0.0015, delivery: 0.0012 } as const;
/** AWS does not say how much of a core a capacity unit is; a quarter is what people measure. Half of it is left free. */
const USABLE_CORES_PER_UNIT = 0.25 / 2;

/** Average capacity units of one instance. */
function capacityOf({ acu }: Workload, { rate, deliveriesPerEvent }: Traffic, { cluster }: Stage): number {
  if (acu !== undefined) return acu;
  const { min, max } = cluster?.capacity ?? { min: 0.5, max: 16 };
  const load = rate * (DATABASE_SECONDS.append + DATABASE_SECONDS.delivery * deliveriesPerEvent);
  return Math.min(max, Math.max(min, 0.5 + load / USABLE_CORES_PER_UNIT));
}

function databaseLines(workload: Workload, traffic: Traffic, stage: Stage): Quantity[] {
  const { events, deliveriesPerEvent, perCall, perInvocation } = traffic;
  const { cluster, retention } = stage;
  const instances = cluster?.reader === true ? 2 : 1;
  const units = capacityOf(workload, traffic, stage) * instances;
  // Measured from append to settled: 2,120 bytes for 1 KB to one destination. Each effect writes about 900 more.
  const wal = events * (700 + workload.payloadBytes + 1300 * deliveriesPerEvent);
  const commits = events * (1 + 1 / perCall + deliveriesPerEvent / Math.min(5, perInvocation) + 1);
  const perDay = workload.eventsPerDay / GB;
  const rows =
    retention.outbox.toDays() * perDay * (workload.payloadBytes + 700 + 250 * deliveriesPerEvent) +
    retention.inbox.toDays() * perDay * 150 * deliveriesPerEvent;
  const part = 'database';
  return [
    {
      part,
      what: `${instances} instance(s), ${(units / instances).toFixed(2)} ACU each`,
      price: 'aurora-acu',
      quantity: units * HOURS,
    },
    { part, what: 'rows of outbox and inbox, a fifth of it free space', price: 'aurora-storage', quantity: rows * 1.2 },
    { part, what: 'commits, and log in pages of 4 KB', price: 'aurora-io', quantity: commits + wal / 4096 },
    {
      part,
      what: `backups of ${cluster?.backupRetention?.toDays() ?? 0} days`,
      price: 'aurora-backup',
      quantity: ((cluster?.backupRetention?.toDays() ?? 0) * wal) / DAYS / GB,
    },
    {
      part,
      what: 'Database Insights',
      price: 'insights-acu',
      quantity: cluster?.insights === 'advanced' ? units * HOURS : 0,
    },
  ];
}

/** In its twelfth month; it grows by as much every month. */
function archiveLines({ events }: Traffic, { payloadBytes }: Workload): Quantity[] {
  const month = (events * (payloadBytes + 600) * 0.25) / GB;
  const files = events / 500;
  const part = 'keeping';
  return [
    { part, what: 'archive, the last month', price: 's3-storage', quantity: month },
    { part, what: 'archive, eleven months before', price: 's3-instant-retrieval', quantity: month * 11 },
    { part, what: 'files of 500 events written', price: 's3-put', quantity: files },
    { part, what: 'and moved to cheaper storage', price: 's3-transition', quantity: files },
  ];
}
