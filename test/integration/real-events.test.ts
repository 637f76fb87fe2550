import webhooksExamples from '@octokit/webhooks-examples';
import { describe, expect, it } from 'vitest';
import { transaction } from '../../shared/database/index.ts';
import {
  catalogueRows,
  catalogueSchemas,
  compiledCatalogue,
  defineCatalogue,
  schemasFingerprint,
} from '../../shared/events/index.ts';
import { eventConsumer } from '../../shared/inbox/index.ts';
import { createOutbox, runRelay } from '../../shared/outbox/index.ts';
import { testDatabase } from '../support/database.ts';
import { relayOptions } from '../support/outbox.ts';
import { testQueue } from '../support/queue.ts';
import { recordingLog, recordingMetrics } from '../support/recorders.ts';

interface Example {
  readonly repository?: { readonly full_name?: string };
  readonly organization?: { readonly login?: string };
  readonly installation?: { readonly id?: number };
  readonly sender?: { readonly login?: string };
}

/** 329 real webhook events of 58 kinds, 10 KB on average, 27 KB at most. */
const webhooks: readonly { readonly name: string; readonly examples: readonly Example[] }[] =
  // Its types say ES module; it is a JSON file.
  webhooksExamples as never;

/** What an event is about: its repository, else the organization, installation, sender, at last its kind. */
function aggregateOf(name: string, example: Example): string {
  return (
    example.repository?.full_name ??
    example.organization?.login ??
    example.installation?.id?.toString() ??
    example.sender?.login ??
    name
  );
}

const typeOf = (name: string): string => `github.${name.replaceAll('_', '-')}`;

const definition = defineCatalogue({
  source: '/github',
  destinations: { queue: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
  events: Object.fromEntries(
    webhooks.map(({ name }) => [
      typeOf(name),
      {
        aggregate: 'github',
        versions: { 1: { type: 'object' } },
        whenParked: 'block',
        destinations: ['queue'],
      } as const,
    ]),
  ),
});
const catalogue = compiledCatalogue(definition, {
  fingerprint: schemasFingerprint(catalogueSchemas(definition)),
  validators: Object.fromEntries(webhooks.map(({ name }) => [`${typeOf(name)}/1`, () => true])),
});

const database = await testDatabase();
const queue = await testQueue();

describe('real events', () => {
  it('go through append, relay, queue and consumer: all come out, equal, each aggregate in order', async () => {
    const owner = database.pool('sealed_migrator');
    await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(catalogueRows(catalogue))]);
    const outbox = createOutbox({ catalogue });
    const written: { aggregate: string; type: string; data: unknown }[] = webhooks.flatMap(({ name, examples }) =>
      examples.map((example) => ({ aggregate: aggregateOf(name, example), type: typeOf(name), data: example })),
    );
    expect(written.length).toBe(329);

    const writers = database.pool('sealed_writer');
    for (let from = 0; from < written.length; from += 7) {
      const events = written.slice(from, from + 7).map(({ aggregate, type, data }) => ({
        type,
        aggregate: { type: 'github' as const, id: aggregate },
        data: data as Record<string, unknown>,
      }));
      await transaction(writers, async (tx) => outbox.append(tx, events));
    }

    const report = await runRelay(relayOptions(database, { queue: queue.publisher() }));
    expect(report).toEqual({ ended: 'drained', published: 329, retried: 0, parked: 0 });

    const consumed: typeof written = [];
    const log = recordingLog();
    const handler = async (event: { aggregateId: string; type: string; data: unknown }): Promise<void> => {
      consumed.push({ aggregate: event.aggregateId, type: event.type, data: event.data });
    };
    const consumer = eventConsumer({
      name: 'github',
      mode: 'strict',
      startingPoint: 'beginning',
      destination: 'queue',
      catalogue,
      handlers: Object.fromEntries(webhooks.map(({ name }) => [typeOf(name), handler])),
      pool: database.pool('sealed_ledger'),
      log,
      metrics: recordingMetrics(),
    });
    await queue.consume(consumer);
    expect(log.lines.filter((line) => line.level === 'error' || line.level === 'warn')).toEqual([]);

    const byAggregate = (events: typeof written): Map<string, typeof written> =>
      Map.groupBy(events, (it) => it.aggregate);
    const [came, went] = [byAggregate(consumed), byAggregate(written)];
    expect([...came.keys()].toSorted()).toEqual([...went.keys()].toSorted());
    for (const [aggregate, events] of went) expect(came.get(aggregate)).toEqual(events);
  });
});
