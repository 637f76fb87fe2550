import type { SQSRecord } from 'aws-lambda';
import { Agent, request } from 'node:http';

/** What Lambda's poller does with a queue. */
export interface Queue {
  receive(signal: AbortSignal): Promise<SQSRecord[]>;
  acknowledge(records: readonly SQSRecord[]): Promise<void>;
  /** They are visible again at once. */
  giveBack(records: readonly SQSRecord[]): Promise<void>;
}

interface Received {
  readonly Messages?: readonly {
    readonly MessageId: string;
    readonly ReceiptHandle: string;
    readonly Body: string;
    readonly MD5OfBody: string;
    readonly Attributes: SQSRecord['attributes'];
  }[];
}

/** Plain calls: the poller is not what is tested. */
export function queueAt(port: number, queueUrl: string): Queue {
  const agent = new Agent({ keepAlive: true });
  const call = async (action: string, body: object, signal?: AbortSignal): Promise<unknown> =>
    ask(port, agent, action, { QueueUrl: queueUrl, ...body }, signal);
  const entriesOf = (records: readonly SQSRecord[], more: object) =>
    records.map(({ receiptHandle }, index) => ({ Id: String(index), ReceiptHandle: receiptHandle, ...more }));
  return {
    async receive(signal) {
      const { Messages = [] } = (await call(
        'ReceiveMessage',
        {
          MaxNumberOfMessages: 10,
          WaitTimeSeconds: 1,
          VisibilityTimeout: 120,
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
        eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:chaos.fifo',
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
  };
}

async function ask(
  port: number,
  agent: Agent,
  action: string,
  body: object,
  signal: AbortSignal | undefined,
): Promise<unknown> {
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
