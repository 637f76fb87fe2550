import type { SQSRecord } from 'aws-lambda';
import { Agent, request } from 'node:http';

/** What Lambda's poller does with a queue. */
export interface Queue {
  receive(signal: AbortSignal): Promise<SQSRecord[]>;
  acknowledge(records: readonly SQSRecord[]): Promise<void>;
  /** They are visible again at once. */
  giveBack(records: readonly SQSRecord[]): Promise<void>;
  /** Messages that wait or are being worked on. */
  depth(): Promise<number>;
}

/** What a process took along when it died is given out again after this. */
export const VISIBILITY_SECONDS = 4;

interface Received {
  readonly Messages?: readonly {
    readonly MessageId: string;
    readonly ReceiptHandle: string;
    readonly Body: string;
    readonly MD5OfBody: string;
    readonly Attributes: SQSRecord['attributes'];
  }[];
}

interface Counted {
  readonly Attributes?: Readonly<Record<string, string>>;
}

const agent = new Agent({ keepAlive: true });

/** Plain calls: the poller is not what is tested. */
export function queueAt(port: number, queueUrl: string): Queue {
  const call = async (action: string, body: object, signal?: AbortSignal): Promise<unknown> =>
    ask(port, action, { QueueUrl: queueUrl, ...body }, signal);
  const entriesOf = (records: readonly SQSRecord[], more: object) =>
    records.map(({ receiptHandle }, index) => ({ Id: String(index), ReceiptHandle: receiptHandle, ...more }));
  return {
    async receive(signal) {
      const { Messages = [] } = (await call(
        'ReceiveMessage',
        {
          MaxNumberOfMessages: 10,
          WaitTimeSeconds: 1,
          VisibilityTimeout: VISIBILITY_SECONDS,
          MessageSystemAttributeNames: ['All'],
        },
        signal,
      )) as Received;
      return Messages.map((message) => ({
        messageId: message.MessageId,
        receiptHandle: message.ReceiptHandle,
        body: message.Body,
        attributes: message.Attributes,
        messageAttributes: {},
        md5OfBody: message.MD5OfBody,
        eventSource: 'aws:sqs',
        eventSourceARN: `arn:aws:sqs:us-east-1:000000000000:${queueUrl.split('/').at(-1)}`,
        awsRegion: 'us-east-1',
      }));
    },
    async acknowledge(records) {
      if (records.length > 0) await call('DeleteMessageBatch', { Entries: entriesOf(records, {}) });
    },
    async giveBack(records) {
      const Entries = entriesOf(records, { VisibilityTimeout: 0 });
      if (records.length > 0) await call('ChangeMessageVisibilityBatch', { Entries });
    },
    async depth() {
      const AttributeNames = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'];
      const { Attributes = {} } = (await call('GetQueueAttributes', { AttributeNames })) as Counted;
      return AttributeNames.reduce((sum, name) => sum + Number(Attributes[name] ?? 0), 0);
    },
  };
}

/** Messages that wait or are being worked on, in these queues and their dead-letter queues. */
export async function messagesIn(queue: {
  readonly port: number;
  readonly urls: Readonly<Record<string, string>>;
  readonly dead: Readonly<Record<string, string>>;
}): Promise<number> {
  const urls = [...Object.values(queue.urls), ...Object.values(queue.dead)];
  const depths = await Promise.all(urls.map((url) => queueAt(queue.port, url).depth()));
  return depths.reduce((sum, depth) => sum + depth, 0);
}

async function ask(port: number, action: string, body: object, signal: AbortSignal | undefined): Promise<unknown> {
  const text = JSON.stringify(body);
  const answer = await new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    const outgoing = request(
      {
        host: '127.0.0.1',
        port,
        agent,
        method: 'POST',
        headers: {
          'content-type': 'application/x-amz-json-1.0',
          'content-length': Buffer.byteLength(text),
          'x-amz-target': `AmazonSQS.${action}`,
          // Unsigned, but the queue reads the region from here.
          authorization: 'AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/sqs/aws4_request',
        },
        ...(signal && { signal }),
      },
      (incoming) => {
        let read = '';
        incoming.setEncoding('utf8');
        incoming.on('data', (chunk: string) => (read += chunk));
        incoming.on('end', () => resolve({ status: incoming.statusCode, text: read }));
        incoming.on('error', reject);
      },
    );
    outgoing.on('error', reject);
    outgoing.end(text);
  });
  if (answer.status !== 200) throw new Error(`${action}: ${answer.status} ${answer.text}`);
  return answer.text === '' ? {} : JSON.parse(answer.text);
}
