import {
  GetQueueAttributesCommand,
  QueueDoesNotExist,
  SendMessageBatchCommand,
  type SendMessageBatchResult,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { PublishError } from '../../../shared/outbox/publish/publish-error.ts';
import type { Message } from '../../../shared/outbox/publish/publisher.ts';
import { sqsPublisher } from '../../../shared/outbox/publish/sqs-publisher.ts';
import { failureClass } from '../../../shared/outbox/relay/failure-class.ts';

const QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/ledger.fifo';

const message = (name: string): Message => ({
  eventId: name,
  type: 'invoice.issued',
  source: '/invoices',
  body: `{"id":"${name}"}`,
  bytes: 20,
  groupId: `group of ${name}`,
  deduplicationId: `once ${name}`,
});

function publisherWith(fifo = true) {
  // Never used: the mock answers before credentials or region are asked for.
  const client = new SQSClient({ region: 'eu-central-1' });
  return { sqs: mockClient(client), publisher: sqsPublisher({ client, queueUrl: QUEUE, fifo }) };
}

async function codeOf(failing: Promise<unknown>): Promise<string> {
  const error = await failing.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(PublishError);
  return (error as PublishError).code;
}

describe('publishing to SQS', () => {
  it('sends each body with its group and its id against repeats', async () => {
    const { sqs, publisher } = publisherWith();
    sqs.on(SendMessageBatchCommand).resolves({ Successful: [], Failed: [] });
    await publisher.publish([message('x'), message('y')]);
    expect(sqs.commandCalls(SendMessageBatchCommand)[0]?.args[0].input).toEqual({
      QueueUrl: QUEUE,
      Entries: [
        { Id: '0', MessageBody: '{"id":"x"}', MessageGroupId: 'group of x', MessageDeduplicationId: 'once x' },
        { Id: '1', MessageBody: '{"id":"y"}', MessageGroupId: 'group of y', MessageDeduplicationId: 'once y' },
      ],
    });
  });

  it('hands a trace context on as AWS writes it, and none that is none', async () => {
    const { sqs, publisher } = publisherWith(false);
    sqs.on(SendMessageBatchCommand).resolves({});
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await publisher.publish([
      { ...message('x'), traceparent },
      { ...message('y'), traceparent: 'nonsense' },
    ]);
    const StringValue = 'Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1';
    expect(sqs.commandCalls(SendMessageBatchCommand)[0]?.args[0].input.Entries).toEqual([
      {
        Id: '0',
        MessageBody: '{"id":"x"}',
        MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue } },
      },
      { Id: '1', MessageBody: '{"id":"y"}' },
    ]);
  });

  it('gives a standard queue no group and no id against repeats, which it would refuse', async () => {
    const { sqs, publisher } = publisherWith(false);
    sqs.on(SendMessageBatchCommand).resolves({});
    await publisher.publish([message('x')]);
    expect(sqs.commandCalls(SendMessageBatchCommand)[0]?.args[0].input.Entries).toEqual([
      { Id: '0', MessageBody: '{"id":"x"}' },
    ]);
  });

  it('makes one call and waits five seconds for it at most', async () => {
    const { sqs, publisher } = publisherWith();
    sqs.on(SendMessageBatchCommand).rejects(Object.assign(new Error('slow down'), { name: 'RequestThrottled' }));
    expect(await codeOf(publisher.publish([message('x')]))).toBe('RequestThrottled');
    const [call, ...more] = sqs.commandCalls(SendMessageBatchCommand);
    expect(more).toEqual([]);
    // The mock's types know one argument; the client got two.
    expect((call!.args as unknown[])[1]).toMatchObject({ abortSignal: expect.any(AbortSignal) });
    expect(publisher.limits).toEqual({ entries: 10, bytes: 1_048_576, timeoutMs: 5_000 });
  });

  it('case 15: gives each message its own answer, whatever order the answers come in', async () => {
    const { sqs, publisher } = publisherWith();
    const answer = {
      Successful: [
        { Id: '2', MessageId: 'third', MD5OfMessageBody: '' },
        { Id: '0', MessageId: 'first', MD5OfMessageBody: '' },
      ],
      Failed: [{ Id: '1', Code: 'InternalError', Message: 'try again', SenderFault: false }],
    } satisfies SendMessageBatchResult;
    sqs.on(SendMessageBatchCommand).resolves(answer);
    expect(await publisher.publish(['x', 'y', 'z'].map(message))).toEqual([
      { ok: true, messageId: 'first' },
      { ok: false, code: 'InternalError', reason: 'try again' },
      { ok: true, messageId: 'third' },
    ]);
  });

  it('takes a message that the answer does not mention for not sent, and for no fault of its own', async () => {
    const { sqs, publisher } = publisherWith();
    sqs.on(SendMessageBatchCommand).resolves({ Successful: [{ Id: '1', MessageId: 'm', MD5OfMessageBody: '' }] });
    const [first, second] = await publisher.publish([message('x'), message('y')]);
    expect(first).toMatchObject({ ok: false, code: 'NoAnswer' });
    expect(second).toMatchObject({ ok: true });
    expect(failureClass('NoAnswer')).toBe('outage');
  });
});

describe('the code of a call that failed', () => {
  const failing = (error: object): Promise<string> => {
    const { sqs, publisher } = publisherWith();
    sqs.on(SendMessageBatchCommand).rejects(error);
    return codeOf(publisher.publish([message('x')]));
  };
  const named = (name: string, status?: number): object =>
    Object.assign(new Error('scripted'), {
      name,
      ...(status !== undefined && { $metadata: { httpStatusCode: status } }),
    });

  it.each([
    ['a service error', named('QueueDoesNotExist', 400), 'QueueDoesNotExist'],
    ['a network error', Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }), 'ECONNREFUSED'],
    ['our own time-out', named('AbortError'), 'AbortError'],
    ['a time-out of the platform, whose code is a number', new DOMException('late', 'TimeoutError'), 'TimeoutError'],
    ['a known code with status 503', named('ServiceUnavailable', 503), 'ServiceUnavailable'],
    ['a known code with status 500', named('KmsThrottled', 500), 'KmsThrottled'],
    ['an HTML page with status 503', named('SyntaxError', 503), 'Http503'],
    ['an empty answer with status 500', named('Unknown', 500), 'Http500'],
    ['a status for a name', named('502', 502), 'Http502'],
    ['too many requests', named('Unknown', 429), 'Http429'],
    ['a code that nobody knows with status 500', named('SomethingNew', 500), 'Http500'],
    ['a code that nobody knows with status 400', named('SomethingNew', 400), 'SomethingNew'],
    ['a body that a proxy refused', named('SyntaxError', 413), 'Http413'],
  ])('is found for %s', async (_about, error, code) => {
    expect(await failing(error)).toBe(code);
  });

  it('is an outage for every status of 429 and 5xx without a known code, and for no other', () => {
    expect(['Http429', 'Http500', 'Http599'].map(failureClass)).toEqual(['outage', 'outage', 'outage']);
    expect(['Http200', 'Http413'].map(failureClass)).toEqual(['unknown', 'unknown']);
  });
});

describe('case 20: the preflight of a queue', () => {
  it.each([
    ['a FIFO queue', true, { FifoQueue: 'true' }],
    ['a standard queue', false, {}],
  ])('passes for %s where the catalogue says so', async (_about, fifo, Attributes) => {
    const { sqs, publisher } = publisherWith(fifo);
    sqs.on(GetQueueAttributesCommand).resolves({ Attributes });
    await expect(publisher.preflight()).resolves.toBeUndefined();
    expect(sqs.commandCalls(GetQueueAttributesCommand)[0]?.args[0].input).toMatchObject({ QueueUrl: QUEUE });
  });

  it.each([
    ['a standard queue for sqs-fifo', true, {}],
    ['a FIFO queue for sqs', false, { FifoQueue: 'true' }],
  ])('refuses %s', async (_about, fifo, Attributes) => {
    const { sqs, publisher } = publisherWith(fifo);
    sqs.on(GetQueueAttributesCommand).resolves({ Attributes });
    expect(await codeOf(publisher.preflight())).toBe('QueueKindMismatch');
  });

  it('names a queue that is not there', async () => {
    const { sqs, publisher } = publisherWith();
    sqs.on(GetQueueAttributesCommand).rejects(new QueueDoesNotExist({ message: 'no such queue', $metadata: {} }));
    expect(await codeOf(publisher.preflight())).toBe('QueueDoesNotExist');
  });
});
