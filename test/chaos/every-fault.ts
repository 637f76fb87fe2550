import { CALL_FAULTS } from './call-faults.ts';
import type { ChaosOptions } from './options.ts';
import { PROCESS_FAULTS } from './process-faults.ts';
import { PROVIDER_FAULTS, providerFault } from './provider-faults.ts';
import { REPLAY, REPLAY_OF_ALL } from './replays.ts';

/** What consumers and their messages meet. */
const CONSUMER_FAULTS = [
  'handler fails, then works',
  'handler hangs past its time, then works',
  'handler always fails (poison)',
  'message returned until it is a dead letter',
  'dead letter redriven',
  'message delivered again',
  'message delivered again, late',
  'consumer crash before acknowledgement',
];

/** A replay of everything takes a short run too long, and a long one as well. */
const REPLAYS_ALL = { least: 2_000, most: 100_000 };

export function replaysAll({ events }: Pick<ChaosOptions, 'events'>): boolean {
  return events >= REPLAYS_ALL.least && events <= REPLAYS_ALL.most;
}

/** Every kind of fault that a run must have met, by the names of its report. */
export function everyFault(options: Pick<ChaosOptions, 'events'>): string[] {
  return [
    ...PROCESS_FAULTS,
    ...CALL_FAULTS,
    ...PROVIDER_FAULTS.map(providerFault),
    ...CONSUMER_FAULTS,
    REPLAY,
    ...(replaysAll(options) ? [REPLAY_OF_ALL] : []),
  ];
}
