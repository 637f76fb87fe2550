import { SQSClient } from '@aws-sdk/client-sqs';
import { beforeAll, describe, expect, it } from 'vitest';
import { runRelay, sqsPublisher } from '../../shared/outbox/index.ts';
import { testDatabase } from '../support/database.ts';
import { append, drain, installCatalogue, thing } from '../support/outbox.ts';
import { relayOptions } from '../support/outbox.ts';
import { testQueue } from '../support/queue.ts';
import { recordingLog } from '../support/recorders.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writers = database.pool('sealed_writer');
const queue = await testQueue();

beforeAll(() => installCatalogue(owner));

async function bodies(): Promise<
  { group: string | undefined; event: { subject: string; sequence: string; data: unknown } }[]
> {
  const all = [];
  for (let records = await queue.receive(); records.length > 0; records = await queue.receive()) {
    for (const record of records) all.push({ group: record.attributes.MessageGroupId, event: JSON.parse(record.body) });
  }
  return all;
}

describe('the relay on SQS FIFO', () => {
  it('sends the envelope with the aggregate as message group; odd ids become their hash', async () => {
    await append(writers, thing('plain-1', { n: 1 }), thing('with space'), thing('Türkçe/ğ'), thing('x'.repeat(200)));
    expect(await drain(database, queue.publisher())).toMatchObject({ published: 4 });
    const received = await bodies();
    expect(received.map(({ event }) => event.subject).toSorted()).toEqual(
      ['Türkçe/ğ', 'plain-1', 'with space', 'x'.repeat(200)].toSorted(),
    );
    expect(received.find(({ event }) => event.subject === 'plain-1')).toMatchObject({
      group: 'plain-1',
      event: { specversion: '1.0', source: '/test', type: 'thing.happened', sequence: '1', data: { n: 1 } },
    });
    for (const { group, event } of received) {
      if (event.subject !== 'plain-1') expect(group).toMatch(/^[0-9a-f]{64}$/);
    }
  });

  it('case 16: bodies each under the limit, their sum over it: all arrive', async () => {
    const size = 400_000;
    await append(writers, ...Array.from({ length: 7 }, (_, i) => thing(`big-${i}`, { s: 'x'.repeat(size) })));
    expect(await drain(database, queue.publisher())).toMatchObject({ published: 7, retried: 0, parked: 0 });
    expect((await bodies()).length).toBe(7);
  });

  it('text and numbers arrive as they were written', async () => {
    const text = 'İıŞğ 😀 \u2028 \uFFFE \u0001 "quoted" \\ </script>';
    await writers.query('select outbox.append($1)', [
      JSON.stringify([thing('exact', { text })]).replace('{"text"', '{"n":9007199254740993,"d":1.10,"text"'),
    ]);
    await drain(database, queue.publisher());
    const [record] = await queue.receive();
    expect(record?.body).toContain('9007199254740993');
    expect(record?.body).toContain('1.10');
    expect(JSON.parse(record?.body ?? '').data.text).toBe(text);
  });

  it.each([
    [
      'a queue that does not exist',
      queue.url.replace('test.fifo', 'missing.fifo'),
      true,
      /NonExistentQueue|QueueDoesNotExist/,
    ],
    ['a FIFO queue that the catalogue calls standard', queue.url, false, /QueueKindMismatch/],
  ])('case 20: %s is found before anything is sent; nothing is marked', async (_what, queueUrl, fifo, code) => {
    await append(writers, thing('waits'));
    const log = recordingLog();
    const publisher = sqsPublisher({ client: queue.client, queueUrl, fifo });
    const report = await runRelay(relayOptions(database, { queue: publisher }, { log }));
    expect(report).toMatchObject({ published: 0, parked: 0, retried: 0 });
    expect(log.lines.filter((line) => line.level === 'error')).toEqual([
      expect.objectContaining({
        fields: expect.objectContaining({ destination: 'queue', code: expect.stringMatching(code) }),
      }),
    ]);
    const { rows } = await owner.query(`select state, attempts from outbox.delivery where state <> 'published'`);
    expect(new Set(rows.map((row) => `${row.state}/${row.attempts}`))).toEqual(new Set(['pending/0']));
  });

  it('a queue that nobody answers for costs no attempt', async () => {
    const client = new SQSClient({
      endpoint: 'http://127.0.0.1:9',
      region: 'us-east-1',
      credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
      useQueueUrlAsEndpoint: false,
      maxAttempts: 1,
    });
    const log = recordingLog();
    const publisher = { ...sqsPublisher({ client, queueUrl: queue.url, fifo: true }), preflight: async () => {} };
    await runRelay(relayOptions(database, { queue: publisher }, { log }));
    expect(log.lines).toContainEqual(
      expect.objectContaining({ fields: expect.objectContaining({ code: 'ECONNREFUSED' }) }),
    );
    const { rows } = await owner.query(
      `select max(attempts) as attempts from outbox.delivery where state <> 'published'`,
    );
    expect(rows).toEqual([{ attempts: 0 }]);
    client.destroy();
  });
});
