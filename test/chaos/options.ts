import { parseArgs } from 'node:util';
import { SealedOutboxError } from '../../shared/errors/index.ts';
import type { ConsumerKind } from './consumers.ts';
import type { RelayKind } from './relay-process.ts';

export interface ChaosOptions {
  /** The run writes at least so many events. */
  readonly events: number;
  /** Relay processes, 1 to 4. */
  readonly relays: number;
  readonly seed: number;
  /** Longest time for writing and faults; what is under way then is finished. */
  readonly minutes: number;
  readonly relay: RelayKind;
  readonly consumer: ConsumerKind;
  /** Events a second that the writers aim at. */
  readonly rate: number;
  /** Whether relays kill themselves at their await points; `whole`: the run goes on until each point had its turn. */
  readonly sweep: 'whole' | 'begun' | 'off';
  /** Seconds between two faults of processes and the database, on average. */
  readonly every: number;
  /** Seconds between two faults of calls to the queue, on average: each opens a circuit for half a second. */
  readonly callsEvery: number;
  readonly verbose: boolean;
}

export const HELP = `npm run chaos -- [options]

Writers, relays and consumers against a real PostgreSQL and a queue behind a fault proxy, while everything that can break is
broken. Then database, queues, effects and read models are compared. Exit code 0 only if nothing was lost, invented, out of order, done twice or left.

  --events <number>        write at least so many events (default 20000)
  --relays <1-4>           relay processes (default 2)
  --seed <number>          of the plan of faults and writes (default 1)
  --minutes <number>       longest time for writing and faults (default 10, or 1 per 15,000 events)
  --rate <number>          events a second that the writers aim at (default 1500)
  --relay <kind>           ours; naive (rows with SKIP LOCKED) and cursor (ours without the look-up) must be caught (default ours)
  --consumer <kind>        ours; no-dedupe (keeps no dedupe row) and acknowledges-first must be caught (default ours)
  --every <seconds>        between two faults of processes, on average (default 1.2; from 200,000 events on 8)
  --calls-every <seconds>  between two faults of calls, on average (default 0.4; from 200,000 events on 4)
  --no-sweep               relays do not kill themselves at each of their await points
  --json <file>            write the report there too
  --verbose                print what happens, and what the relays log
  --help                   this text

docs/chaos.md says what happens and what it proves.`;

/** A long run meets each fault many times anyway; what it is for is the number of events between them. */
export function isLong(events: number): boolean {
  return events >= 200_000;
}

export interface CommandOptions extends ChaosOptions {
  readonly help: boolean;
  readonly json: string | undefined;
}

/** @throws SealedOutboxError (`CHAOS_OPTION`) naming the option that is not understood. */
export function parseOptions(args: readonly string[]): CommandOptions {
  const values = parse(args);
  const relay = values.relay;
  const consumer = values.consumer;
  const events = whole('--events', values.events, 1, 100_000_000);
  const long = isLong(events);
  if (relay !== 'ours' && relay !== 'naive' && relay !== 'cursor') refuse('--relay must be ours, naive or cursor.');
  if (consumer !== 'ours' && consumer !== 'no-dedupe' && consumer !== 'acknowledges-first') {
    refuse('--consumer must be ours, no-dedupe or acknowledges-first.');
  }
  return {
    help: values.help,
    json: values.json,
    verbose: values.verbose,
    sweep: values['no-sweep'] ? 'off' : 'whole',
    relay,
    consumer,
    events,
    relays: whole('--relays', values.relays, 1, 4),
    seed: whole('--seed', values.seed, 0, 4_294_967_295),
    minutes: number('--minutes', values.minutes ?? String(Math.max(10, events / 15_000))),
    every: number('--every', values.every ?? (long ? '8' : '1.2')),
    callsEvery: number('--calls-every', values['calls-every'] ?? (long ? '4' : '0.4')),
    rate: number('--rate', values.rate),
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        json: { type: 'string' },
        verbose: { type: 'boolean', default: false },
        'no-sweep': { type: 'boolean', default: false },
        relay: { type: 'string', default: 'ours' },
        consumer: { type: 'string', default: 'ours' },
        events: { type: 'string', default: '20000' },
        relays: { type: 'string', default: '2' },
        seed: { type: 'string', default: '1' },
        minutes: { type: 'string' },
        every: { type: 'string' },
        'calls-every': { type: 'string' },
        rate: { type: 'string', default: '1500' },
      },
    }).values;
  } catch (error) {
    return refuse(`${(error as Error).message} \`npm run chaos -- --help\` lists the options.`);
  }
}

function whole(option: string, text: string, least: number, most: number): number {
  const value = Number(text.replaceAll(/[_,]/g, ''));
  if (text !== '' && Number.isInteger(value) && value >= least && value <= most) return value;
  return refuse(`${option} must be a whole number from ${least} to ${most}.`);
}

function number(option: string, text: string): number {
  const value = Number(text);
  if (text !== '' && Number.isFinite(value) && value > 0) return value;
  return refuse(`${option} must be a number greater than 0.`);
}

function refuse(message: string): never {
  throw new SealedOutboxError('CHAOS_OPTION', message);
}
