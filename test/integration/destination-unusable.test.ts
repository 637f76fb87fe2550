import { beforeEach, describe, expect, it } from 'vitest';
import { probe } from '../../functions/monitor/probe.ts';
import { runRelay, sqsPublisher } from '../../shared/outbox/index.ts';
import { deliveriesOf } from '../support/chain.ts';
import { testDatabase } from '../support/database.ts';
import { leaseClock, until } from '../support/lease-clock.ts';
import { append, emptyOutbox, installCatalogue, relayOptions, thing } from '../support/outbox.ts';
import { testQueue } from '../support/queue.ts';
import { recordingLog } from '../support/recorders.ts';
import { type SqsAction, type SqsRefusal, sqsStub } from '../support/sqs-stub.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const monitor = database.pool('sealed_monitor');

beforeEach(async () => {
  await emptyOutbox(owner);
  await installCatalogue(owner);
});

const REFUSALS: readonly (readonly [
  string,
  (action: SqsAction) => SqsRefusal,
  RegExp,
  (action: SqsAction) => RegExp,
])[] = [
  [
    'a queue name that does not exist',
    () => ({
      status: 400,
      type: 'com.amazonaws.sqs#QueueDoesNotExist',
      header: 'AWS.SimpleQueueService.NonExistentQueue',
      message: 'The specified queue does not exist.',
    }),
    /^(QueueDoesNotExist|AWS\.SimpleQueueService\.NonExistentQueue)$/,
    () => /check the queue's URL of "queue" in OUTBOX_DESTINATIONS/,
  ],
  [
    'no permission',
    (action) => ({
      status: 403,
      type: 'com.amazon.coral.service#AccessDeniedException',
      header: 'AccessDenied',
      message: `User: arn:aws:sts::000000000000:assumed-role/relay/run is not authorized to perform: ${action} on resource: stub.fifo`,
    }),
    /^AccessDenied(Exception)?$/,
    (action) =>
      action === 'SendMessageBatch'
        ? /allow the relay's role sqs:SendMessage on "queue"/
        : /allow the relay's role sqs:GetQueueAttributes on "queue"/,
  ],
  [
    'an expired credential',
    () => ({
      status: 403,
      type: 'com.amazon.coral.service#ExpiredTokenException',
      header: 'ExpiredToken',
      message: 'The security token included in the request is expired',
    }),
    /^ExpiredToken(Exception)?$/,
    () => /renew the credential of the relay/,
  ],
];

async function oldestPendingAge(): Promise<number> {
  let age = 0;
  await probe(monitor, {
    log: recordingLog(),
    metrics: {
      add: (name, _unit, value) => {
        if (name === 'OldestPendingAge') age = value;
      },
    },
  });
  return age;
}

/** The lag alarm looks at this: it was small, it is large when time has passed, and nothing else was written down. */
async function expectUntouchedAndSeen(pending: number): Promise<void> {
  const waiting = (await deliveriesOf(owner)).filter(({ state }) => state !== 'published');
  expect(waiting).toHaveLength(pending);
  for (const row of waiting) expect(row).toMatchObject({ state: 'pending', attempts: 0, run: 0, last_error: null });
  const before = await oldestPendingAge();
  await owner.query(`update outbox.delivery set created_at = created_at - interval '5 minutes'`);
  expect(await oldestPendingAge()).toBeGreaterThanOrEqual(before + 300);
}

describe.each(REFUSALS)('%s', (_what, refusal, code, remedy) => {
  it('found by the preflight: one line with the remedy, nothing sent or marked, and the lag sees it', async () => {
    await append(writer, thing('a'), thing('a'), thing('b'));
    const stub = await sqsStub({ refuse: (action) => refusal(action) });
    const log = recordingLog();
    expect(await runRelay(relayOptions(database, { queue: stub.publisher() }, { log }))).toMatchObject({
      published: 0,
      retried: 0,
      parked: 0,
    });
    expect(log.lines).toMatchObject([
      {
        level: 'error',
        fields: {
          destination: 'queue',
          code: expect.stringMatching(code),
          remedy: expect.stringMatching(remedy('GetQueueAttributes')),
        },
      },
    ]);
    expect(stub.sends).toBe(0);
    await expectUntouchedAndSeen(3);
  });

  it('found in the middle of a run: one line each time that the circuit opens, nothing marked, and all goes when it is mended', async () => {
    let broken = false;
    let refused = 0;
    const stub = await sqsStub({
      refuse: (action) => {
        if (!broken) return undefined;
        refused += 1;
        return refusal(action);
      },
    });
    const log = recordingLog();
    const stop = new AbortController();
    const running = runRelay(
      relayOptions(
        database,
        { queue: stub.publisher() },
        { mode: 'continuous', log, clock: leaseClock(), concurrency: 1, random: () => 0, signal: stop.signal },
      ),
    );
    await append(writer, thing('before'));
    await until('the first published', async () => (await deliveriesOf(owner))[0]?.state === 'published');
    broken = true;
    await append(writer, ...Array.from({ length: 20 }, (_, n) => thing(`a${n}`)));
    // One call that opens the circuit, and two probes that open it again.
    await until('two probes', () => refused >= 3);
    await until('the line of the last one', () => log.lines.length >= refused);
    await expectUntouchedAndSeen(20);
    broken = false;
    await until('everything published', async () =>
      (await deliveriesOf(owner)).every(({ state }) => state === 'published'),
    );
    stop.abort();
    await running;
    expect(log.lines).toHaveLength(refused);
    for (const line of log.lines) {
      expect(line).toMatchObject({
        level: 'error',
        fields: {
          destination: 'queue',
          code: expect.stringMatching(code),
          remedy: expect.stringMatching(remedy('SendMessageBatch')),
          retryInMs: expect.any(Number),
        },
      });
    }
    expect((await deliveriesOf(owner)).every(({ attempts }) => attempts === 0)).toBe(true);
  });
});

describe('a destination that only seems unusable', () => {
  it('because it throttles: no remedy, because nobody has to act; a warning, and it goes on by itself', async () => {
    let throttled = true;
    const stub = await sqsStub({
      refuse: (action) =>
        throttled && action === 'SendMessageBatch'
          ? {
              status: 400,
              type: 'com.amazonaws.sqs#RequestThrottled',
              header: 'RequestThrottled',
              message: 'slow down',
            }
          : undefined,
    });
    await append(writer, thing('a'));
    const log = recordingLog();
    await runRelay(relayOptions(database, { queue: stub.publisher() }, { log }));
    expect(log.lines).toMatchObject([{ level: 'warn', fields: { code: 'RequestThrottled' } }]);
    expect(log.lines[0]?.fields).not.toHaveProperty('remedy');
    throttled = false;
    expect(await runRelay(relayOptions(database, { queue: stub.publisher() }, { log }))).toMatchObject({
      published: 1,
    });
  });

  it('like case 20: because its name is wrong by a letter, at a queue that is no stub', async () => {
    const queue = await testQueue();
    const queueUrl = queue.url.replace('test.fifo', 'tset.fifo');
    await append(writer, thing('a'));
    const log = recordingLog();
    const publisher = sqsPublisher({ client: queue.client, queueUrl, fifo: true });
    await runRelay(relayOptions(database, { queue: publisher }, { log }));
    expect(log.lines).toMatchObject([
      { level: 'error', fields: { remedy: expect.stringContaining(`check the queue's URL of "queue"`) } },
    ]);
    await expectUntouchedAndSeen(1);
  });
});
