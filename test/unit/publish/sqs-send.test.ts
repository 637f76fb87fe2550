import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { SQSClient } from '@aws-sdk/client-sqs';
import { type HttpRequest, HttpResponse } from '@smithy/core/protocols';
import { describe, expect, it } from 'vitest';
import type { Publisher } from '../../../shared/outbox/index.ts';
import { sqsPublisher } from '../../../shared/outbox/publish/sqs-publisher.ts';

const QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/ledger.fifo';
const OTHER = 'https://sqs.eu-central-1.amazonaws.com/123456789012/mail.fifo';

const message = (name: string) => ({
  eventId: name,
  type: 'invoice.issued',
  source: '/invoices',
  body: `{"id":"${name}"}`,
  bytes: 20,
  groupId: name,
  deduplicationId: name,
});

type Sent = 'preflight' | 'by the SDK' | 'directly';

/** A publisher whose client answers without a network, and how each request came to be. */
function publisherWith(status: () => number) {
  const { sent, publishers } = publishersWith(status, [QUEUE]);
  return { sent, publisher: publishers[0] as Publisher };
}

/** The same for several that share the client. */
function publishersWith(status: (queueUrl: string) => number, queueUrls: readonly string[]) {
  const sent: Sent[] = [];
  const client = new SQSClient({
    region: 'eu-central-1',
    credentials: { accessKeyId: 'key', secretAccessKey: 'secret' },
    maxAttempts: 1,
    requestHandler: {
      async handle(request: HttpRequest) {
        const preflight = request.headers['x-amz-target'] === 'AmazonSQS.GetQueueAttributes';
        sent.push(preflight ? 'preflight' : 'amz-sdk-invocation-id' in request.headers ? 'by the SDK' : 'directly');
        const body = Buffer.from(request.body).toString();
        const text = preflight ? '{"Attributes":{"FifoQueue":"true"}}' : accepted(body);
        const headers = { 'content-type': 'application/x-amz-json-1.0' };
        const statusCode = status(JSON.parse(body).QueueUrl);
        return { response: new HttpResponse({ statusCode, headers, body: Readable.from([Buffer.from(text)]) }) };
      },
    },
  });
  return { sent, publishers: queueUrls.map((queueUrl) => sqsPublisher({ client, queueUrl, fifo: true })) };
}

function accepted(body: string): string {
  const { Entries } = JSON.parse(body) as { Entries: { Id: string; MessageBody: string }[] };
  const Successful = Entries.map(({ Id, MessageBody }) => ({
    Id,
    MessageId: `message ${Id}`,
    MD5OfMessageBody: createHash('md5').update(MessageBody).digest('hex'),
  }));
  return JSON.stringify({ Successful, Failed: [] });
}

describe('who makes a call to SQS', () => {
  it('the SDK only makes the preflight where all goes well, also when many calls start at once', async () => {
    const { sent, publisher } = publisherWith(() => 200);
    await publisher.preflight();
    const results = await Promise.all(['x', 'y', 'z'].map((name) => publisher.publish([message(name)])));
    expect(results.flat().every(({ ok }) => ok)).toBe(true);
    expect(sent).toEqual(['preflight', 'directly', 'directly', 'directly']);
  });

  it('the SDK makes the first call where there was no preflight', async () => {
    const { sent, publisher } = publisherWith(() => 200);
    await publisher.publish([message('x')]);
    await publisher.publish([message('y')]);
    expect(sent).toEqual(['by the SDK', 'directly']);
  });

  it('each of two publishers on one client sends directly, and what fails at one is not healed by the other', async () => {
    const failing = new Set<string>();
    const { sent, publishers } = publishersWith((queueUrl) => (failing.has(queueUrl) ? 503 : 200), [QUEUE, OTHER]);
    const [a, b] = publishers as [Publisher, Publisher];
    await a.preflight();
    await b.preflight();
    await a.publish([message('x')]);
    await b.publish([message('x')]);
    expect(sent.splice(0)).toEqual(['preflight', 'preflight', 'directly', 'directly']);
    failing.add(QUEUE);
    await expect(a.publish([message('y')])).rejects.toThrow();
    await b.publish([message('y')]);
    await b.preflight();
    await expect(a.publish([message('y')])).rejects.toThrow();
    expect(sent.splice(0)).toEqual(['directly', 'directly', 'preflight', 'by the SDK']);
    failing.clear();
    await a.publish([message('y')]);
    await a.publish([message('z')]);
    expect(sent).toEqual(['by the SDK', 'directly']);
  });

  it('the SDK makes the calls after one that failed, until one passes', async () => {
    let status = 200;
    const { sent, publisher } = publisherWith(() => status);
    await publisher.preflight();
    status = 503;
    for (const name of ['x', 'y']) await expect(publisher.publish([message(name)])).rejects.toThrow();
    status = 200;
    await publisher.publish([message('x')]);
    await publisher.publish([message('y')]);
    expect(sent).toEqual(['preflight', 'directly', 'by the SDK', 'by the SDK', 'directly']);
  });
});
