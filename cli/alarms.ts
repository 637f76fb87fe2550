import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  CloudWatchClient,
  type CompositeAlarm,
  type MetricAlarm,
  paginateDescribeAlarms,
} from '@aws-sdk/client-cloudwatch';
import { SealedOutboxError } from '../shared/errors/index.ts';
import { type AlarmStanding, EXIT, exitCodeOf, renderedAlarms, standings } from './alarms/states.ts';
import { TARGET_HELP, TARGET_OPTIONS, type Target, targetOf } from './cloud/target.ts';

const HELP = `The alarms of an installation: which are raised, since when, why, and what to read: npm run alarms -- …

  --watch             again and again, every five seconds, until Ctrl-C
  --check             ends with 1 when one is raised, and with 3 when there is none to look at
  --json              as JSON; with --watch a line each time
  --help              this text

${TARGET_HELP}

It needs cloudwatch:DescribeAlarms. Exit code: 0 read, 1 raised (with --check), 2 wrong use, 3 the alarms could not be read.

Examples:
  npm run alarms
  npm run alarms -- --stack sealed-outbox-prod-service --region eu-central-1 --check
`;

const OPTIONS = {
  ...TARGET_OPTIONS,
  watch: { type: 'boolean' },
  check: { type: 'boolean' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const;

const WATCH_MS = 5_000;

async function read(client: CloudWatchClient, { stack }: Target): Promise<AlarmStanding[]> {
  const found: (MetricAlarm | CompositeAlarm)[] = [];
  const pages = paginateDescribeAlarms(
    { client },
    { AlarmNamePrefix: `${stack}-`, AlarmTypes: ['MetricAlarm', 'CompositeAlarm'] },
  );
  for await (const { MetricAlarms = [], CompositeAlarms = [] } of pages)
    found.push(...MetricAlarms, ...CompositeAlarms);
  return standings(found, stack);
}

/** @returns the process's exit code. */
async function main(words: readonly string[]): Promise<number> {
  let values;
  let target;
  try {
    values = parseArgs({ args: [...words], options: OPTIONS }).values;
    if (values.help === true) {
      console.log(HELP);
      return 0;
    }
    target = targetOf(values, process.env);
  } catch (error) {
    console.error(error instanceof SealedOutboxError ? error.message : `${(error as Error).message}\n\n${HELP}`);
    return 2;
  }
  const client = new CloudWatchClient(target.client);
  try {
    for (;;) {
      const alarms = await read(client, target);
      console.log(values.json === true ? JSON.stringify(alarms) : renderedAlarms(alarms));
      if (values.watch !== true) return exitCodeOf(alarms, values.check === true);
      if (values.json !== true) console.log('');
      await delay(WATCH_MS);
    }
  } catch (error) {
    const { name, message } = error as Error;
    console.error(`the alarms could not be read (${name}: ${message})`);
    return EXIT.unread;
  } finally {
    client.destroy();
  }
}

process.exitCode = await main(process.argv.slice(2));
