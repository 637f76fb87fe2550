import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { SQSClient } from '@aws-sdk/client-sqs';
import { type HttpRequest, HttpResponse } from '@smithy/core/protocols';
import { describe, expect, it } from 'vitest';
import { sqsPublisher } from '../../../shared/outbox/publish/sqs-publisher.ts';

const QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/ledger.fifo';

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
  const sent: Sent[] = [];
  const client = new SQSClient({
    region: 'eu-central-1',
    credentials: { accessKeyId: 'key', secretAccessKey: 'secret' },
    maxAttempts: 1,
    requestHandler: {
      async handle(request: HttpRequest) {
        const preflight = request.headers['x-amz-target'] === 'AmazonSQS.GetQueueAttributes';
        sent.push(preflight ? 'preflight' : 'amz-sdk-invocation-id' in request.headers ? 'by the SDK' : 'directly');
        const text = preflight ? '{"Attributes":{"FifoQueue":"true"}}' : accepted(Buffer.from(request.body).toString());
        const headers = { 'content-type': 'application/x-amz-json-1.0' };
        return {
          response: new HttpResponse({ statusCode: status(), headers, body: Readable.from([Buffer.from(text)]) }),
        };
      },
    },
  });
  return { sent, publisher: sqsPublisher({ client, queueUrl: QUEUE, fifo: true }) };
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
