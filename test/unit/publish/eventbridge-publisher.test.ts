import {
  DescribeEventBusCommand,
  EventBridgeClient,
  PutEventsCommand,
  ResourceNotFoundException,
} from '@aws-sdk/client-eventbridge';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { eventBridgePublisher } from '../../../shared/outbox/publish/eventbridge-publisher.ts';
import { PublishError } from '../../../shared/outbox/publish/publish-error.ts';
import type { Message } from '../../../shared/outbox/publish/publisher.ts';
import { failureClass } from '../../../shared/outbox/relay/failure-class.ts';

const message = (name: string, change: Partial<Message> = {}): Message => ({
  eventId: name,
  type: 'invoice.issued',
  source: '/invoices',
  body: `{"id":"${name}"}`,
  bytes: 20,
  groupId: name,
  deduplicationId: name,
  ...change,
});

function publisherWith() {
  // Never used: the mock answers before credentials or region are asked for.
  const client = new EventBridgeClient({ region: 'eu-central-1' });
  const events = mockClient(client);
  const entries = () => events.commandCalls(PutEventsCommand).flatMap((call) => call.args[0].input.Entries);
  return { events, entries, publisher: eventBridgePublisher({ client, bus: 'events' }) };
}

async function codeOf(failing: Promise<unknown>): Promise<string> {
  const error = await failing.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(PublishError);
  return (error as PublishError).code;
}

describe('publishing to EventBridge', () => {
  it('sends the envelope as detail under its type and source, to the bus that is named', async () => {
    const { events, entries, publisher } = publisherWith();
    events.on(PutEventsCommand).resolves({ FailedEntryCount: 0, Entries: [{ EventId: 'a' }] });
    expect(await publisher.publish([message('x')])).toEqual([{ ok: true, messageId: 'a' }]);
    expect(entries()).toEqual([
      { EventBusName: 'events', Source: '/invoices', DetailType: 'invoice.issued', Detail: '{"id":"x"}' },
    ]);
  });

  it.each([
    [
      '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      'Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1',
    ],
    [
      '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02',
      'Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=0',
    ],
    ['00-00000000000000000000000000000000-b7ad6b7169203331-01', undefined],
    ['00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01', undefined],
    ['00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01', undefined],
    ['nonsense', undefined],
  ])('hands a trace context on as AWS writes it, and none that is none: %s', async (traceparent, header) => {
    const { events, entries, publisher } = publisherWith();
    events.on(PutEventsCommand).resolves({ Entries: [{ EventId: 'a' }] });
    await publisher.publish([message('x', { traceparent })]);
    expect(entries()[0]?.TraceHeader).toBe(header);
  });

  it('case 17: FailedEntryCount 1 with HTTP 200: that event alone is refused, by its place', async () => {
    const { events, publisher } = publisherWith();
    events.on(PutEventsCommand).resolves({
      FailedEntryCount: 1,
      Entries: [{ EventId: 'a' }, { ErrorCode: 'InternalFailure', ErrorMessage: 'try again' }, { EventId: 'c' }],
    });
    expect(await publisher.publish(['x', 'y', 'z'].map((name) => message(name)))).toEqual([
      { ok: true, messageId: 'a' },
      { ok: false, code: 'InternalFailure', reason: 'try again' },
      { ok: true, messageId: 'c' },
    ]);
  });

  it('like case 17: beside one that is not sent at all: places are those of the messages, not of the call', async () => {
    const { events, entries, publisher } = publisherWith();
    events.on(PutEventsCommand).resolves({
      FailedEntryCount: 1,
      Entries: [{ ErrorCode: 'ThrottlingException', ErrorMessage: 'slower' }, { EventId: 'c' }],
    });
    const long = message('never', { type: 'x'.repeat(129) });
    expect(await publisher.publish([long, message('y'), long, message('z')])).toEqual([
      expect.objectContaining({ ok: false, code: 'DetailTypeTooLong' }),
      { ok: false, code: 'ThrottlingException', reason: 'slower' },
      expect.objectContaining({ ok: false, code: 'DetailTypeTooLong' }),
      { ok: true, messageId: 'c' },
    ]);
    expect(entries().map((entry) => entry?.Detail)).toEqual(['{"id":"y"}', '{"id":"z"}']);
  });

  it('makes no call where nothing can be sent, and a type of 128 characters can', async () => {
    const { events, entries, publisher } = publisherWith();
    events.on(PutEventsCommand).resolves({ Entries: [{ EventId: 'a' }] });
    await publisher.publish([message('x', { type: 'x'.repeat(129) })]);
    expect(entries()).toEqual([]);
    expect(await publisher.publish([message('x', { type: 'x'.repeat(128) })])).toMatchObject([{ ok: true }]);
  });

  it('takes an event that the answer does not mention for not sent, and for no fault of its own', async () => {
    const { events, publisher } = publisherWith();
    events.on(PutEventsCommand).resolves({ Entries: [{ EventId: 'a' }, {}] });
    expect(await publisher.publish(['x', 'y', 'z'].map((name) => message(name)))).toMatchObject([
      { ok: true },
      { ok: false, code: 'NoAnswer' },
      { ok: false, code: 'NoAnswer' },
    ]);
  });

  it('counts type and source beside the body, in UTF-8: less than 1 MB a call', () => {
    const { publisher } = publisherWith();
    expect(publisher.sizeOf?.(message('x', { bytes: 100, type: 'abc', source: '/ü' }))).toBe(100 + 3 + 3);
    expect(publisher.limits).toEqual({ entries: 10, bytes: 999_999, timeoutMs: 5_000 });
  });

  it.each([
    ['ThrottlingException', 'outage'],
    ['InternalFailure', 'outage'],
    ['AccessDeniedException', 'outage'],
    ['NotAuthorizedForSourceException', 'outage'],
    ['NotAuthorizedForDetailTypeException', 'outage'],
    ['MalformedDetail', 'hopeless'],
    ['DetailTypeTooLong', 'hopeless'],
    // It may be the event, or how the bus is named: one that passes beside it decides.
    ['InvalidArgument', 'unknown'],
  ])('%s counts as %s', (code, as) => {
    expect(failureClass(code)).toBe(as);
  });
});

describe('case 20: the preflight of a bus', () => {
  it('asks for the bus itself, because PutEvents to one that is not there may answer with success', async () => {
    const { events, publisher } = publisherWith();
    events.on(DescribeEventBusCommand).resolves({ Name: 'events' });
    await publisher.preflight();
    expect(events.commandCalls(DescribeEventBusCommand)[0]?.args[0].input).toEqual({ Name: 'events' });
  });

  it('names a bus that is not there', async () => {
    const { events, publisher } = publisherWith();
    events
      .on(DescribeEventBusCommand)
      .rejects(new ResourceNotFoundException({ message: 'Event bus events does not exist.', $metadata: {} }));
    expect(await codeOf(publisher.preflight())).toBe('ResourceNotFoundException');
    expect(failureClass('ResourceNotFoundException')).toBe('outage');
  });

  it('passes on that the relay may not ask', async () => {
    const { events, publisher } = publisherWith();
    events.on(DescribeEventBusCommand).rejects(Object.assign(new Error('no'), { name: 'AccessDeniedException' }));
    expect(await codeOf(publisher.preflight())).toBe('AccessDeniedException');
  });
});
