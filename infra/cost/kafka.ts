import type { Line } from './bill.ts';
import { HOURS, type Traffic, type Workload } from './traffic.ts';

/** Days that a topic keeps. */
const KEPT_DAYS = 7;
const GB = 1e9;
/** The least that MSK gives a broker, in GB. */
const LEAST_STORAGE = 10;

/**
 * Debezium on MSK, as its guides set it up: provisioned brokers, one in each zone (three of m7g.large in prod, two of t3.small in dev), topics with as many copies as
 * brokers, one worker of MSK Connect with one unit, since the connector of PostgreSQL has one task.
 */
export function kafkaLines({ stage, eventsPerDay }: Workload, { messageBytes }: Traffic): Omit<Line, 'usd'>[] {
  const brokers = stage === 'prod' ? 3 : 2;
  const perBroker = Math.max(LEAST_STORAGE, (eventsPerDay * KEPT_DAYS * messageBytes) / GB / 0.7);
  const part = 'Kafka';
  return [
    {
      part,
      what: `${brokers} brokers`,
      price: stage === 'prod' ? 'msk-m7g-large' : 'msk-t3-small',
      quantity: brokers * HOURS,
    },
    {
      part,
      what: `${KEPT_DAYS} days on each, disks filled to 70 %`,
      price: 'msk-storage',
      quantity: brokers * perBroker,
    },
    { part, what: 'MSK Connect with Debezium', price: 'msk-connect', quantity: HOURS },
  ];
}
