import {
  DescribeEventBusCommand,
  EventBridgeClient,
  PutEventsCommand,
  type PutEventsResultEntry,
  ResourceNotFoundException,
} from '@aws-sdk/client-eventbridge';
import { mockClient } from 'aws-sdk-client-mock';
import { beforeEach, describe, expect, it } from 'vitest';
import { eventBridgePublisher, runRelay } from '../../shared/outbox/index.ts';
import { testDatabase } from '../support/database.ts';
import { append, installCatalogue, recordingPublisher, relayOptions, thing } from '../support/outbox.ts';
import { recordingLog } from '../support/recorders.ts';

const client = new EventBridgeClient({ region: 'eu-central-1' });
const bus = mockClient(client);
const publisher = eventBridgePublisher({ client, bus: 'events' });

/** The bus answers for each event as the test says. */
function answering(answer: (aggregateId: string) => PutEventsResultEntry): void {
  bus.on(DescribeEventBusCommand).resolves({ Name: 'events' });
  bus.on(PutEventsCommand).callsFake(({ Entries }: { Entries: { Detail: string }[] }) => {
    const answers = Entries.map(({ Detail }) => answer(JSON.parse(Detail).subject));
    return { FailedEntryCount: answers.filter(({ ErrorCode }) => ErrorCode !== undefined).length, Entries: answers };
  });
}

const refused = (code: string): PutEventsResultEntry => ({ ErrorCode: code, ErrorMessage: 'as the test wants it' });

describe('the relay on EventBridge', async () => {
  const database = await testDatabase();
  const owner = database.pool('sealed_migrator');
  const writers = database.pool('sealed_writer');

  beforeEach(async () => {
    bus.reset();
    await installCatalogue(
      owner,
      [{ type: 'thing.happened' }],
      [{ name: 'bus', kind: 'eventbridge', max_bytes: 999_743 }],
    );
    await owner.query(`update outbox.delivery set state = 'published' where state <> 'published'`);
  });

  const run = (log = recordingLog()) => runRelay(relayOptions(database, { bus: publisher }, { log }));
  const left = async (): Promise<string[]> => {
    const { rows } = await owner.query(
      `select e.aggregate_id || ' ' || d.state || ' ' || d.attempts || coalesce(' ' || d.last_error, '') as text
         from outbox.delivery d join outbox.event e on e.id = d.event_id where d.state <> 'published' order by 1`,
    );
    return rows.map(({ text }) => text);
  };

  it('sends events of one aggregate side by side: the bus keeps no order', async () => {
    answering((id) => ({ EventId: id }));
    await append(writers, thing('a'), thing('a'), thing('a'), thing('b'));
    expect(await run()).toMatchObject({ published: 4 });
    expect(bus.commandCalls(PutEventsCommand)).toHaveLength(1);
  });

  it('case 17: of ten events the one that is refused is parked with the reason, and nine are settled', async () => {
    answering((id) => (id === 'n3' ? refused('MalformedDetail') : { EventId: id }));
    await append(writers, ...Array.from({ length: 10 }, (_, n) => thing(`n${n}`)));
    expect(await run()).toMatchObject({ published: 9, retried: 0, parked: 1 });
    expect(await left()).toEqual([expect.stringMatching(/^n3 parked \d MalformedDetail: as the test wants it$/)]);
  });

  it('like case 17: a code that nobody knows: that event is charged one attempt, because others passed beside it', async () => {
    answering((id) => (id === 'm3' ? refused('SomethingNew') : { EventId: id }));
    await append(writers, ...Array.from({ length: 10 }, (_, n) => thing(`m${n}`)));
    expect(await run()).toMatchObject({ published: 9, retried: 1, parked: 0 });
    expect(await left()).toEqual(['m3 pending 1 SomethingNew: as the test wants it']);
  });

  it.each(['ThrottlingException', 'InternalFailure', 'AccessDeniedException'])(
    'case 53: %s for single events costs no attempt and parks nothing',
    async (code) => {
      answering((id) => (id === 'slow' ? refused(code) : { EventId: id }));
      await append(writers, thing('fast'), thing('slow'));
      const log = recordingLog();
      expect(await run(log)).toMatchObject({ published: 1, retried: 0, parked: 0 });
      expect(await left()).toEqual(['slow pending 0']);
      expect(log.lines).toContainEqual(expect.objectContaining({ fields: expect.objectContaining({ code }) }));
    },
  );

  it('case 20: a bus that does not exist is found before anything is sent, although it would accept everything', async () => {
    answering((id) => ({ EventId: id }));
    bus
      .on(DescribeEventBusCommand)
      .rejects(new ResourceNotFoundException({ message: 'Event bus events does not exist.', $metadata: {} }));
    await append(writers, thing('waits'));
    const log = recordingLog();
    expect(await run(log)).toMatchObject({ published: 0, parked: 0, retried: 0 });
    expect(bus.commandCalls(PutEventsCommand)).toEqual([]);
    expect(await left()).toEqual(['waits pending 0']);
    expect(log.lines.filter(({ level }) => level === 'error')).toEqual([
      expect.objectContaining({
        fields: expect.objectContaining({ destination: 'bus', code: 'ResourceNotFoundException' }),
      }),
    ]);
  });

  it('like case 20: beside a destination that works: each has its own state, and the other goes on', async () => {
    bus.on(DescribeEventBusCommand).rejects(Object.assign(new Error('no'), { name: 'AccessDeniedException' }));
    await installCatalogue(
      owner,
      [{ type: 'thing.happened' }],
      [
        { name: 'bus', kind: 'eventbridge', max_bytes: 999_743 },
        { name: 'queue', kind: 'sqs-fifo' },
      ],
    );
    await append(writers, thing('both'));
    const queue = recordingPublisher();
    expect(await runRelay(relayOptions(database, { bus: publisher, queue }))).toMatchObject({ published: 1 });
    expect(queue.accepted).toHaveLength(1);
    expect(await left()).toEqual(['both pending 0']);
  });

  it('like case 13: what append accepts at the limit of the bus fits into a call, its type and source counted', async () => {
    answering((id) => ({ EventId: id }));
    let size = 999_000;
    const refusedAt = async (length: number): Promise<boolean> =>
      append(writers, thing('edge', { s: 'x'.repeat(length) })).then(
        () => false,
        () => true,
      );
    while (await refusedAt(size)) size -= 20;
    expect(await run()).toMatchObject({ published: 1, parked: 0 });
  });

  it('splits a call by what EventBridge counts: type and source of each event, not the bodies alone', async () => {
    answering((id) => ({ EventId: id }));
    await append(writers, ...Array.from({ length: 4 }, (_, n) => thing(`big${n}`, { s: 'x'.repeat(400_000) })));
    expect(await run()).toMatchObject({ published: 4, parked: 0 });
    const sizes = bus
      .commandCalls(PutEventsCommand)
      .map((call) =>
        (call.args[0].input.Entries ?? []).reduce(
          (sum, { Detail = '', DetailType = '', Source = '' }) =>
            sum + Detail.length + DetailType.length + Source.length,
          0,
        ),
      );
    expect(sizes.length).toBeGreaterThan(1);
    for (const size of sizes) expect(size).toBeLessThan(1_000_000);
  });
});
