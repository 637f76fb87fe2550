import type pg from 'pg';
import { defineCatalogue, upcaster } from '../../shared/events/index.ts';
import { eventConsumer, type Mode } from '../../shared/inbox/index.ts';
import { compileCatalogue } from './compile-catalogue.ts';
import { recordingLog, recordingMetrics } from './recorders.ts';

const SCHEMA = { type: 'object' } as const;

/** A consumer of the counter's events whose catalogue knows them up to a version, as an earlier or a later deployment does. */
export function versionedConsumer({
  name,
  pool,
  newest,
  mode = 'strict',
  startingPoint = 'beginning',
  whenFailing,
}: {
  readonly name: string;
  readonly pool: pg.Pool;
  readonly newest: 1 | 2;
  readonly mode?: Mode;
  readonly startingPoint?: 'beginning' | 'first-seen';
  readonly whenFailing?: 'block' | 'skip';
}) {
  const seen: number[] = [];
  const handler = eventConsumer({
    name,
    ...(mode === 'strict' ? { mode, startingPoint, destination: 'all' } : { mode }),
    catalogue: compileCatalogue(
      defineCatalogue({
        source: '/counters',
        destinations: { all: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
        events: {
          'counter.added': {
            aggregate: 'counter',
            versions: newest === 1 ? { 1: SCHEMA } : { 1: SCHEMA, 2: SCHEMA },
            upcast: newest === 1 ? {} : { 1: upcaster(SCHEMA, SCHEMA)((data) => data) },
            whenParked: 'block',
            destinations: ['all'],
          },
        },
      }),
    ),
    handlers: {
      'counter.added': {
        handle: async ({ sequence }) => void seen.push(Number(sequence)),
        ...(whenFailing && { whenFailing }),
      },
    },
    pool,
    log: recordingLog(),
    metrics: recordingMetrics(),
  });
  return { handler, seen };
}
