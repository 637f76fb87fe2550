import { type Bill, type Line, PARTS, sum } from './bill.ts';
import { PRICE_REGION, type PriceName, type Prices, standingOf } from './prices.ts';

const dollars = (usd: number): string => (usd < 0.005 ? '<0.01' : usd.toFixed(2));
const count = (value: number): string => value.toLocaleString('en-US', { maximumFractionDigits: value < 100 ? 2 : 0 });

/** A bill for a person: parts with their lines, the sums, the other way, and which prices nobody has checked. */
export function rendered({ workload, traffic, lines, usd, kafka }: Bill, prices: Prices): string {
  const used = [...new Set([...lines, ...kafka.lines].map(({ price }) => price))];
  const unverified = used.filter((name) => standingOf(prices[name]) === 'unverified');
  const secondHand = used.filter((name) => standingOf(prices[name]) === 'second-hand');
  return [
    `Stage ${workload.stage}, ${count(workload.eventsPerDay)} events a day of ${count(workload.payloadBytes)} bytes (${count(traffic.rate)} a second on average), each to ` +
      `${count(traffic.deliveriesPerEvent)} destinations. US dollars a month, list prices of ${PRICE_REGION}, without free tiers.`,
    '',
    ...PARTS.flatMap((part) => partOf(part, lines, prices)),
    `${dollars(usd).padStart(10)}  together`,
    '',
    ...partOf('Kafka', kafka.lines, prices),
    `${dollars(kafka.usd).padStart(10)}  together with Debezium on MSK in place of relay, queues and bus, the rest being the same`,
    '',
    `A relay call carries ${count(traffic.perCall)} message(s), an invocation of a consumer ${count(traffic.perInvocation)}.`,
    `*  unverified, from memory: ${list(unverified)}`,
    `"  read in somebody else's text, not on AWS's page: ${list(secondHand)}`,
    "Pages and dates: infra/cost/prices.json. What is assumed: docs/cost.md. Ask AWS's calculator before you sign anything.",
  ].join('\n');
}

function partOf(part: Line['part'], lines: readonly Line[], prices: Prices): string[] {
  const own = lines.filter((line) => line.part === part);
  if (own.length === 0) return [];
  return [
    `${dollars(sum(own)).padStart(10)}  ${part}`,
    ...own.map(({ what, quantity, price, usd }) => {
      const { per, of, usd: each } = prices[price];
      return `${dollars(usd).padStart(16)}  ${what}: ${count(quantity / of)} × $${each} per ${per}${MARK[standingOf(prices[price])]}`;
    }),
  ];
}

const MARK = { aws: '', 'second-hand': ' "', unverified: ' *' } as const;

function list(names: readonly PriceName[]): string {
  return names.length === 0 ? 'none' : names.join(', ');
}
