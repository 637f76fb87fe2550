import { SealedOutboxError } from '../../shared/errors/index.ts';
import { wantedOf } from './arguments.ts';
import { billOf } from './bill.ts';
import { PRICE_REGION, prices, standingOf } from './prices.ts';
import { rendered } from './render.ts';

const HELP = `What a month costs on AWS, part by part, beside Debezium on MSK: npm run cost -- --events-per-day N --payload BYTES

  --events-per-day <n>  events that are appended
  --payload <bytes>     of an event's data
  --stage <name>        dev or prod (default: prod)
  --fifo, --bus, --queue <n>
                        to how many destinations of a kind an event goes on average (default: the sample's, 1, 1 and a third)
  --acu <n>             average capacity units of a database instance (default: from the load, by what docs/cost.md assumes)
  --json                the lines as JSON, with where each price was read
  --help                this text

Nothing is asked over the network: prices are in infra/cost/prices.json, each with the page to check it on. Exit code: 0 printed, 2 wrong use.

Example:
  npm run cost -- --events-per-day 1000000 --payload 1024
`;

/** @returns the process's exit code. */
function main(words: readonly string[]): number {
  try {
    const wanted = wantedOf(words);
    if (wanted.help) {
      console.log(HELP);
      return 0;
    }
    const bill = billOf(wanted.workload, prices);
    if (wanted.json) {
      const standing = Object.fromEntries(
        Object.entries(prices).map(([name, price]) => [name, { ...price, standing: standingOf(price) }]),
      );
      console.log(JSON.stringify({ region: PRICE_REGION, ...bill, prices: standing }, null, 2));
    } else console.log(rendered(bill, prices));
    return 0;
  } catch (error) {
    if (!(error instanceof SealedOutboxError)) throw error;
    console.error(`${error.message} (${error.code})\n\n${HELP}`);
    return 2;
  }
}

process.exitCode = main(process.argv.slice(2));
