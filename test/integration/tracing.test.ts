import { SpanKind, SpanStatusCode } from '@opentelemetry/api';
import { beforeEach, describe, expect, it } from 'vitest';
import { catalogue } from '../../functions/sample/catalogue/index.ts';
import { handlers } from '../../functions/sample/ledger/handlers.ts';
import { transaction } from '../../shared/database/index.ts';
import { eventConsumer, type Handlers } from '../../shared/inbox/index.ts';
import { createOutbox, runRelay } from '../../shared/outbox/index.ts';
import { activeTraceparent, noMetrics, silentLog } from '../../shared/telemetry/index.ts';
import { counterConsumer } from '../support/counter-consumer.ts';
import { counterEnvelope } from '../support/counter-events.ts';
import { testDatabase } from '../support/database.ts';
import { recordingPublisher, relayOptions } from '../support/outbox.ts';
import { testQueue } from '../support/queue.ts';
import { installSample, invoiceOrder, sampleKeyring } from '../support/sample.ts';
import { nameOf, type RecordedSpan, recordSpans } from '../support/spans.ts';
import { fifoRecord, invoke } from '../support/sqs-batch.ts';
import { sampleApi } from './sample/api-harness.ts';

const spans = recordSpans();
const database = await testDatabase();
const queue = await testQueue('ledger.fifo');
await installSample(database.pool('sealed_migrator'));
const api = sampleApi(database.pool('sealed_api', 1));

/** Stands in the payload wherever text may stand: no span may hold it. */
const CANARY = 'Kanarya-4711';
const CALLER = { trace: '0af7651916cd43dd8448eb211c80319c', span: 'b7ad6b7169203331' };
const order = {
  ...invoiceOrder('3f0f6a52-8f0c-4a77-9e35-2f4cf7b7a001'),
  lines: [{ description: CANARY, quantity: 1, unitPriceMinor: 4711_00 }],
};

beforeEach(() => {
  spans.length = 0;
});

function consumer(own: Handlers<typeof catalogue> = handlers, name = 'ledger') {
  const pool = database.pool('sealed_ledger');
  return eventConsumer({
    name,
    mode: 'any',
    catalogue,
    handlers: own,
    // Opened, so that a handler that quotes the data quotes the canary.
    keyring: sampleKeyring(pool),
    opens: ['contact'],
    pool,
    log: silentLog,
    metrics: noMetrics,
  });
}

async function issue(): Promise<string> {
  const traceparent = `00-${CALLER.trace}-${CALLER.span}-01`;
  const { status, body } = await api.post('/invoices', order, { traceparent });
  expect(status).toBe(201);
  return String(body['id']);
}

const relay = () =>
  runRelay(relayOptions(database, { ledger: queue.publisher(), analytics: recordingPublisher() }, { slot: 'traced' }));

function named(name: string): RecordedSpan[] {
  return spans.filter((span) => span.name === name);
}

function only(name: string): RecordedSpan {
  const found = named(name);
  expect(found, `spans called ${name} of ${spans.map((span) => span.name).join(', ')}`).toHaveLength(1);
  return found[0]!;
}

const linked = (span: RecordedSpan) => span.links.map(({ context }) => `${context.traceId}/${context.spanId}`);
const placeOf = ({ context }: RecordedSpan) => `${context.traceId}/${context.spanId}`;

describe('a trace', () => {
  it('leads from the HTTP request through outbox, relay and queue to the effect', async () => {
    const id = await issue();
    await relay();
    const records = await queue.receive();
    expect(await invoke(consumer(), records)).toEqual([]);

    const request = only('POST /invoices');
    expect(request).toMatchObject({
      kind: SpanKind.SERVER,
      context: { traceId: CALLER.trace },
      parent: { spanId: CALLER.span, isRemote: true },
      attributes: { 'http.request.method': 'POST', 'http.route': '/invoices', 'http.response.status_code': 201 },
    });
    const append = only('append outbox');
    expect(append).toMatchObject({
      kind: SpanKind.PRODUCER,
      context: { traceId: CALLER.trace },
      parent: { spanId: request.context.spanId },
      attributes: { 'messaging.operation.type': 'create', 'messaging.batch.message_count': 1 },
    });
    // What travels names the span in which the event was made.
    const envelope = JSON.parse(records[0]?.body ?? '');
    expect(envelope.traceparent).toBe(nameOf(append));

    const send = only('send ledger');
    expect(send).toMatchObject({
      kind: SpanKind.CLIENT,
      parent: undefined,
      attributes: { 'messaging.system': 'aws_sqs', 'messaging.operation.type': 'send' },
    });
    expect(linked(send)).toEqual([placeOf(only('relay run')), placeOf(append)]);

    const message = only('process invoice.issued');
    expect(message).toMatchObject({
      kind: SpanKind.CONSUMER,
      context: { traceId: CALLER.trace },
      parent: { spanId: append.context.spanId },
      attributes: {
        'messaging.message.id': records[0]?.messageId,
        'messaging.destination.name': 'ledger.fifo',
        'messaging.consumer.group.name': 'ledger',
        'cloudevents.event_id': envelope.id,
        'cloudevents.event_type': 'invoice.issued',
        'sealed_outbox.aggregate.id': id,
        'sealed_outbox.sequence': '1',
        'sealed_outbox.outcome': 'effect',
      },
      status: { code: SpanStatusCode.UNSET },
    });
    expect(linked(message)).toEqual([placeOf(only('process ledger'))]);
    expect(spans.every(({ ended }) => ended)).toBe(true);
    expect(JSON.stringify(spans)).not.toMatch(new RegExp(`${CANARY}|471100|${order.customerId}`));
  });

  it('links a call and a batch to the traces of all their messages', async () => {
    const first = await issue();
    const second = await issue();
    await relay();
    const [one, two] = named('append outbox').map(placeOf);
    expect(linked(only('send ledger'))).toEqual(expect.arrayContaining([one, two]));

    const records = (await queue.receive()).map((record) => {
      const { traceparent } = JSON.parse(record.body) as { traceparent: string };
      const [, trace = '', span] = traceparent.split('-');
      const header = `Root=1-${trace.slice(0, 8)}-${trace.slice(8)};Parent=${span};Sampled=1`;
      return { ...record, attributes: { ...record.attributes, AWSTraceHeader: header } };
    });
    expect(new Set(records.map(({ attributes }) => attributes.MessageGroupId))).toEqual(new Set([first, second]));
    await invoke(consumer(), records);
    expect(new Set(linked(only('process ledger')))).toEqual(new Set([one, two]));
    // Both were applied in one transaction, and each has its span in its own trace.
    const messages = named('process invoice.issued');
    expect(new Set(messages.map(({ parent }) => `${parent?.traceId}/${parent?.spanId}`))).toEqual(new Set([one, two]));
    for (const { attributes } of messages) expect(attributes['sealed_outbox.outcome']).toBe('effect');
  });

  const ENVELOPED = { trace: 'a'.repeat(32), span: 'b'.repeat(16) };
  const SENT = { trace: 'c'.repeat(32), span: 'd'.repeat(16) };
  const name = ({ trace, span }: typeof SENT) => `${trace}/${span}`;
  it.each([
    ['the header alone', undefined, SENT, SENT, [], [SENT]],
    ['the envelope alone', ENVELOPED, undefined, ENVELOPED, [], [ENVELOPED]],
    ['both, of two traces', ENVELOPED, SENT, ENVELOPED, [SENT], [SENT, ENVELOPED]],
    ['both, of one span', ENVELOPED, ENVELOPED, ENVELOPED, [], [ENVELOPED]],
    ['neither', undefined, undefined, undefined, [], []],
  ] as const)(
    'is known by %s: the message continues one, links what else it came by, and the batch links all',
    async (what, enveloped, sent, parent, links, batchLinks) => {
      const body = JSON.parse(counterEnvelope({ counter: 'c', sequence: 1 })) as object;
      const traceparent = enveloped && `00-${enveloped.trace}-${enveloped.span}-01`;
      const record = fifoRecord('c', JSON.stringify({ ...body, traceparent }));
      const header = sent && `Root=1-${sent.trace.slice(0, 8)}-${sent.trace.slice(8)};Parent=${sent.span};Sampled=1`;
      const { handler } = counterConsumer({
        name: `by-${what.replaceAll(/[ ,]+/g, '-')}`,
        pool: database.pool('sealed_ledger', 1),
        handlers: { 'counter.added': async () => {} },
      });
      const attributes = { ...record.attributes, ...(header && { AWSTraceHeader: header }) };
      expect(await invoke(handler, [{ ...record, attributes }])).toEqual([]);
      const message = only('process counter.added');
      const whole = spans.find(({ attributes: of }) => of['messaging.batch.message_count'] === 1);
      expect(message.parent && `${message.parent.traceId}/${message.parent.spanId}`).toBe(parent && name(parent));
      expect(linked(message)).toEqual([placeOf(whole!), ...links.map(name)]);
      expect(linked(whole!)).toEqual(batchLinks.map(name));
    },
  );

  it('goes on in events that a handler appends', async () => {
    const id = await issue();
    await relay();
    const outbox = createOutbox({ catalogue });
    const writers = database.pool('sealed_api', 1);
    const chained = consumer(
      {
        'invoice.issued': async () => {
          await transaction(writers, (tx) =>
            outbox.append(tx, [
              {
                type: 'invoice.paid',
                aggregate: { type: 'invoice', id },
                data: { invoiceId: id, currency: 'EUR', totalMinor: 0 },
              },
            ]),
          );
        },
      },
      'chained',
    );
    await invoke(chained, await queue.receive());
    const second = named('append outbox')[1];
    expect(second).toMatchObject({
      context: { traceId: CALLER.trace },
      parent: { spanId: only('process invoice.issued').context.spanId },
    });
  });

  it('goes on when an event that was held is taken out', async () => {
    const traceparent = `00-${CALLER.trace}-${CALLER.span}-01`;
    const traced = (sequence: number) =>
      fifoRecord('c', JSON.stringify({ ...JSON.parse(counterEnvelope({ counter: 'c', sequence })), traceparent }));
    const active: (string | undefined)[] = [];
    const { handler } = counterConsumer({
      name: 'gap',
      pool: database.pool('sealed_ledger', 1),
      handlers: { 'counter.added': async () => void active.push(activeTraceparent()) },
    });
    await invoke(handler, [traced(2)]);
    expect(only('process counter.added')).toMatchObject({ attributes: { 'sealed_outbox.outcome': 'held' } });
    await invoke(handler, [traced(1)]);
    const [, first, second] = named('process counter.added');
    expect(active).toEqual([nameOf(first!), nameOf(second!)]);
    for (const span of [first, second]) {
      expect(span).toMatchObject({
        parent: { traceId: CALLER.trace, spanId: CALLER.span },
        attributes: { 'sealed_outbox.outcome': 'effect' },
        ended: true,
      });
    }
    expect(second?.attributes['sealed_outbox.sequence']).toBe('2');
  });

  it('says of a failure its class and code, and nothing that it quotes', async () => {
    await issue();
    await relay();
    const failing = consumer(
      {
        'invoice.issued': async (event) => {
          throw new Error(`cannot take ${JSON.stringify(event.data.lines)}`);
        },
      },
      'failing',
    );
    const records = await queue.receive();
    expect(await invoke(failing, records)).toHaveLength(records.length);
    for (const span of named('process invoice.issued')) {
      expect(span).toMatchObject({
        status: { code: SpanStatusCode.ERROR },
        attributes: {
          'error.type': 'handler',
          'sealed_outbox.outcome': 'returned',
          'sealed_outbox.failure_code': 'HANDLER_FAILED',
        },
        ended: true,
      });
    }
    expect(JSON.stringify(spans)).not.toContain(CANARY);
  });

  it('begins anew at a message that is no event, or brings no trace', async () => {
    await invoke(consumer(), [fifoRecord('a', CANARY)]);
    expect(only('process message')).toMatchObject({ parent: undefined, attributes: { 'error.type': 'malformed' } });
    expect(linked(only('process message'))).toEqual([placeOf(only('process ledger'))]);
    expect(JSON.stringify(spans)).not.toContain(CANARY);
  });

  it('is told of a refused append by its code', async () => {
    const outbox = createOutbox({ catalogue });
    const bad = { type: 'invoice.paid', aggregate: { type: 'invoice', id: 'x' }, data: { note: CANARY } };
    const appending = transaction(database.pool('sealed_api', 1), (tx) => outbox.append(tx, [bad as never]));
    await expect(appending).rejects.toMatchObject({ code: 'EVENT_DATA_INVALID' });
    expect(only('append outbox')).toMatchObject({
      status: { code: SpanStatusCode.ERROR },
      attributes: { 'error.type': 'EVENT_DATA_INVALID' },
    });
    expect(JSON.stringify(spans)).not.toContain(CANARY);
  });

  it('counts an answer of the server as an error, and not what was the caller’s mistake', async () => {
    await api.post('/invoices', {}, {});
    expect(only('POST /invoices')).toMatchObject({
      status: { code: SpanStatusCode.UNSET },
      attributes: { 'http.response.status_code': 400 },
    });
    expect(only('POST /invoices').attributes).not.toHaveProperty('error.type');
  });
});
