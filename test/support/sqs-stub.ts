import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SQSClient } from '@aws-sdk/client-sqs';
import { onTestFinished } from 'vitest';
import { type Publisher, sqsPublisher } from '../../shared/outbox/index.ts';

/** How SQS refuses a whole call: the code of its JSON protocol, and the one of its older protocol in a header. */
export interface SqsRefusal {
  readonly status: number;
  readonly type: string;
  readonly header?: string;
  readonly message: string;
}

/** A message as the queue got it. */
interface Arrived {
  readonly body: string;
}

export interface SqsStub {
  readonly port: number;
  readonly url: string;
  /** Every message that was accepted, in the order in which it came. */
  readonly arrived: Arrived[];
  /** Calls of SendMessageBatch so far. */
  readonly sends: number;
  publisher(): Publisher;
}

export type SqsAction = 'GetQueueAttributes' | 'SendMessageBatch';

interface Entry {
  readonly Id: string;
  readonly MessageBody: string;
}

/**
 * A FIFO queue that speaks SQS's JSON protocol on 127.0.0.1 and suppresses no repeats. `refuse` says what to answer instead, for each
 * call; `onSend` runs when messages have arrived, before the answer. Stopped when the test is over.
 */
export async function sqsStub(
  script: {
    readonly refuse?: (action: SqsAction) => SqsRefusal | undefined;
    readonly onSend?: (send: number) => Promise<void> | void;
  } = {},
): Promise<SqsStub> {
  const arrived: Arrived[] = [];
  let sends = 0;
  const server = createServer((request, response) => {
    void answer(request).then(({ status, headers, body }) => {
      response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0', ...headers }).end(body);
    });
  });

  async function answer(request: IncomingMessage): Promise<{ status: number; headers: object; body: string }> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const action = String(request.headers['x-amz-target']).split('.')[1] as SqsAction;
    const refusal = script.refuse?.(action);
    if (refusal !== undefined) {
      return {
        status: refusal.status,
        headers: refusal.header === undefined ? {} : { 'x-amzn-query-error': `${refusal.header};Sender` },
        body: JSON.stringify({ __type: refusal.type, message: refusal.message }),
      };
    }
    if (action === 'GetQueueAttributes') return ok({ Attributes: { FifoQueue: 'true' } });
    const { Entries } = JSON.parse(Buffer.concat(chunks).toString('utf8')) as { Entries: Entry[] };
    arrived.push(...Entries.map(({ MessageBody }) => ({ body: MessageBody })));
    sends += 1;
    await script.onSend?.(sends);
    return ok({
      Successful: Entries.map(({ Id, MessageBody }) => ({
        Id,
        MessageId: `m-${Id}`,
        MD5OfMessageBody: createHash('md5').update(MessageBody, 'utf8').digest('hex'),
      })),
      Failed: [],
    });
  }

  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  const client = new SQSClient({
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    useQueueUrlAsEndpoint: false,
    maxAttempts: 1,
  });
  onTestFinished(() => {
    client.destroy();
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${port}/000000000000/stub.fifo`;
  return {
    port,
    url,
    arrived,
    get sends() {
      return sends;
    },
    publisher: () => sqsPublisher({ client, queueUrl: url, fifo: true }),
  };
}

function ok(body: object): { status: number; headers: object; body: string } {
  return { status: 200, headers: {}, body: JSON.stringify(body) };
}
