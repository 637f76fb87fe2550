import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Message, PublishError, type Publisher } from '../../shared/outbox/index.ts';
import { failureClass } from '../../shared/outbox/relay/failure-class.ts';

/** One destination, and how a test looks behind it. */
export interface PublisherContext {
  readonly publisher: Publisher;
  /** What has arrived and was not received before, in order; it is removed. Empty where nothing is there at the moment. */
  receive(): Promise<readonly ReceivedMessage[]>;
  /** The same kind of publisher for a destination that does not exist. */
  missing(): Publisher;
  /** One that is configured for another kind than the destination is, where there are kinds. */
  wrongKind?(): Publisher;
  /** The same kind of publisher, but what it reaches listens at `endpoint`. */
  at(endpoint: string, timeoutMs: number): Publisher;
}

export interface ReceivedMessage {
  readonly body: string;
  readonly groupId?: string | undefined;
}

export interface Promised {
  /** Messages of a group arrive in order, and one with a deduplication id of the last minutes does not. */
  readonly fifo: boolean;
  /** The body arrives byte by byte; otherwise as equal JSON. */
  readonly text: 'exact' | 'json';
  /** What makes the destination refuse one message of a call: another body, and the code that it gives. */
  readonly refused: { readonly body: string; readonly code: string };
  /** The code for a destination of another kind than configured, where there are kinds. */
  readonly wrongKind?: string;
  /** Where the service at hand takes less than the publisher declares: what it takes, in bytes of the body. */
  readonly takesOnly?: number;
  /** Set where there is nothing to run against: every test is skipped with this reason. */
  readonly skip?: string | undefined;
}

/**
 * What the relay relies on. Every publisher must pass; `docs/publishers.md` says how to add one.
 *
 * Nothing here sleeps: what must not arrive is proven by what was sent after it and did.
 */
export function publisherConformance(name: string, promised: Promised, make: () => Promise<PublisherContext>): void {
  describe(`a publisher: ${name}`, () => {
    let context: PublisherContext;
    let publisher: Publisher;

    beforeAll(async () => {
      if (promised.skip !== undefined) return;
      context = await make();
      publisher = context.publisher;
    });
    beforeEach((test) => {
      if (promised.skip !== undefined) test.skip(promised.skip);
    });
    afterAll(() => publisher?.close());

    /** Waits until all of these are there; other messages are let go. */
    async function arrivals(messages: readonly Message[]): Promise<ReceivedMessage[]> {
      const wanted = new Set(messages.map(({ eventId }) => eventId));
      const found: ReceivedMessage[] = [];
      const missing = new Set(wanted);
      const deadline = performance.now() + 20_000;
      while (missing.size > 0) {
        if (performance.now() > deadline) throw new Error(`${missing.size} of ${wanted.size} messages did not arrive`);
        for (const received of await context.receive()) {
          const id = JSON.parse(received.body).id as string;
          if (!wanted.has(id)) continue;
          found.push(received);
          missing.delete(id);
        }
      }
      return found;
    }

    describe('accepted messages', () => {
      it('one: it has an id, and arrives', async () => {
        const sent = [message()];
        expect(await publisher.publish(sent)).toEqual([{ ok: true, messageId: expect.stringMatching(/./) }]);
        expect(await arrivals(sent)).toHaveLength(1);
      });

      it('as many as one call takes: all arrive, each with an id of its own', async () => {
        const sent = Array.from({ length: publisher.limits.entries }, () => message());
        const results = await publisher.publish(sent);
        expect(results.map(({ ok }) => ok)).toEqual(sent.map(() => true));
        expect(new Set(results.map((it) => (it.ok ? it.messageId : ''))).size).toBe(sent.length);
        expect(await arrivals(sent)).toHaveLength(sent.length);
      });

      it('emoji, line separators, Turkish letters and numbers of any length arrive as they were written', async () => {
        const text = 'İıŞşĞğ 😀 👩‍👩‍👧 \u2028\u2029 \u0000\u001f "quoted" \\ </script> e\u0301';
        const sent = message(JSON.stringify({ text }));
        const exact = message(`{"n":9007199254740993,"d":1.10,"spaced" : [ ]}`);
        await publisher.publish([sent, exact]);
        const received = await arrivals([sent, exact]);
        const [first, second] = [sent, exact].map(({ eventId }) => received.find(({ body }) => body.includes(eventId)));
        expect(JSON.parse(first!.body)).toEqual(JSON.parse(sent.body));
        if (promised.text === 'exact') expect([first!.body, second!.body]).toEqual([sent.body, exact.body]);
        else expect(JSON.parse(second!.body)).toEqual(JSON.parse(exact.body));
      });

      it('an event with a trace context passes, a broken one too: a trace is never worth an event', async () => {
        const sent = ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'nonsense'].map((traceparent) => ({
          ...message(),
          traceparent,
        }));
        expect((await publisher.publish(sent)).map(({ ok }) => ok)).toEqual([true, true]);
        await arrivals(sent);
      });
    });

    describe('limits', () => {
      it('a message of exactly the declared size is accepted, alone', async () => {
        const sized = (body: string): number => {
          const bytes = Buffer.byteLength(body);
          return publisher.sizeOf?.({ ...message(), body, bytes }) ?? bytes;
        };
        const room = publisher.limits.bytes - sized(message('""').body);
        const sent = message(JSON.stringify('x'.repeat(Math.min(room, promised.takesOnly ?? room))));
        if (promised.takesOnly === undefined) expect(sized(sent.body)).toBe(publisher.limits.bytes);
        expect(await publisher.publish([sent])).toMatchObject([{ ok: true }]);
        await arrivals([sent]);
      });

      it('one message more than declared fails the call as a whole, with the code of the destination', async () => {
        const tooMany = Array.from({ length: publisher.limits.entries + 1 }, () => message());
        const { code } = await rejection(publisher.publish(tooMany));
        expect(code).toMatch(/^[A-Za-z.]+$/);
        expect(failureClass(code)).not.toBe('outage');
      });
    });

    describe('refused messages', () => {
      it('case 17: the one that is refused says why, in its place; the others are accepted and arrive', async () => {
        const sent = Array.from({ length: 5 }, () => message());
        const bad = { ...message(), body: promised.refused.body };
        const results = await publisher.publish([...sent.slice(0, 2), bad, ...sent.slice(2)]);
        expect(results.map(({ ok }) => ok)).toEqual([true, true, false, true, true, true]);
        expect(results[2]).toMatchObject({ code: promised.refused.code, reason: expect.any(String) });
        expect(await arrivals(sent)).toHaveLength(5);
      });

      it('like case 17: all of them refused: a result for each, and no failed call', async () => {
        const bad = [message(), message()].map((it) => ({ ...it, body: promised.refused.body }));
        expect(await publisher.publish(bad)).toMatchObject([
          { ok: false, code: promised.refused.code },
          { ok: false, code: promised.refused.code },
        ]);
        expect(failureClass(promised.refused.code)).toBe('hopeless');
      });
    });

    describe('the preflight', () => {
      it('passes where the destination is as configured', async () => {
        await expect(publisher.preflight()).resolves.toBeUndefined();
      });

      it('case 20: finds a wrong name; that is an outage, so nothing is charged', async () => {
        const wrong = context.missing();
        expect(failureClass((await rejection(wrong.preflight())).code)).toBe('outage');
        wrong.close();
      });

      const wrongKinds = promised.wrongKind === undefined ? [] : [promised.wrongKind];
      it.each(wrongKinds)('like case 20: a wrong kind: found too, as %s', async (code) => {
        const wrong = context.wrongKind?.() ?? publisher;
        expect((await rejection(wrong.preflight())).code).toBe(code);
        wrong.close();
      });
    });

    describe('a destination that is away', () => {
      it('does not answer: a TimeoutError, within the time that one call may take', async () => {
        const silent = await loopback(() => {});
        const late = context.at(silent.endpoint, 300);
        expect(late.limits.timeoutMs).toBe(300);
        const before = performance.now();
        expect((await rejection(late.publish([message()]))).code).toBe('TimeoutError');
        expect((await rejection(late.preflight())).code).toBe('TimeoutError');
        // Two calls of 300 ms; the rest is a busy machine.
        expect(performance.now() - before).toBeLessThan(5_000);
        late.close();
        await silent.close();
      });

      it('does not listen: ECONNREFUSED, for the call and for the preflight', async () => {
        const server = await loopback(() => {});
        await server.close();
        const gone = context.at(server.endpoint, 5_000);
        expect((await rejection(gone.publish([message()]))).code).toBe('ECONNREFUSED');
        expect((await rejection(gone.preflight())).code).toBe('ECONNREFUSED');
        gone.close();
      });

      it.each([
        ['hangs up', (socket) => socket.destroy()],
        [
          'sends half an answer',
          (socket) => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"', () => socket.destroy()),
        ],
        [
          'is a proxy with a page of its own',
          (socket) => socket.end('HTTP/1.1 503 Sorry\r\nConnection: close\r\nContent-Length: 11\r\n\r\n<html>sorry'),
        ],
      ] satisfies [string, Answer][])('%s: an outage, and one call, not several', async (_what, answer) => {
        const server = await loopback(answer);
        const broken = context.at(server.endpoint, 2_000);
        expect(failureClass((await rejection(broken.publish([message()]))).code)).toBe('outage');
        expect(server.accepted()).toBe(1);
        broken.close();
        await server.close();
      });

      it('leaves no connection behind once it is closed', async () => {
        const server = await loopback((socket) => socket.write('HTTP/1.1 503 Sorry\r\nContent-Length: 0\r\n\r\n'));
        const closing = context.at(server.endpoint, 5_000);
        await Promise.all([rejection(closing.publish([message()])), rejection(closing.publish([message()]))]);
        expect(server.accepted()).toBeGreaterThan(0);
        closing.close();
        const deadline = performance.now() + 10_000;
        while (server.open() > 0 && performance.now() < deadline) await delay(10);
        expect(server.open()).toBe(0);
        await server.close();
      });
    });

    if (promised.fifo) fifoConformance(() => publisher, arrivals);
  });
}

function fifoConformance(
  publisher: () => Publisher,
  arrivals: (messages: readonly Message[]) => Promise<ReceivedMessage[]>,
): void {
  const ids = (received: readonly ReceivedMessage[]): string[] => received.map(({ body }) => JSON.parse(body).id);

  describe('groups', () => {
    it('keeps the order of a group over calls, and each message in its group', async () => {
      const groups = ['first', 'second'].map((it) => `${it}-${randomUUID()}`);
      const calls = Array.from({ length: 4 }, () => groups.map((groupId) => ({ ...message(), groupId })));
      for (const call of calls) await publisher().publish(call);
      const received = await arrivals(calls.flat());
      for (const groupId of groups) {
        const sent = calls.flat().filter((it) => it.groupId === groupId);
        expect(ids(received.filter((it) => it.groupId === groupId))).toEqual(sent.map(({ eventId }) => eventId));
      }
    });

    it('swallows what has the deduplication id of a message before, and says that it is accepted', async () => {
      const first = message();
      const last = { ...message(), groupId: first.groupId };
      await publisher().publish([first]);
      expect(await publisher().publish([first])).toMatchObject([{ ok: true }]);
      await publisher().publish([last]);
      expect(ids(await arrivals([first, last]))).toEqual([first.eventId, last.eventId]);
    });

    it('delivers the same event again under another deduplication id: a redrive is not swallowed', async () => {
      const first = message();
      const redriven = { ...first, deduplicationId: `${first.eventId}-1` };
      const last = { ...message(), groupId: first.groupId };
      for (const each of [first, redriven, last]) await publisher().publish([each]);
      expect(ids(await arrivals([first, last]))).toEqual([first.eventId, first.eventId, last.eventId]);
    });

    it('case 56: invoice 42 and payment 42 are groups of their own, and neither waits for the other', async () => {
      const of = (groupId: string): Message => ({ ...message(), groupId: `${groupId}-${randomUUID()}` });
      const [invoice, payment] = [of('invoice/42'), of('payment/42')];
      await publisher().publish([invoice, payment]);
      const received = await arrivals([invoice, payment]);
      expect(new Set(received.map((it) => it.groupId))).toEqual(new Set([invoice.groupId, payment.groupId]));
    });

    it('like case 56: at the edge: group ids of 128 characters with every kind of punctuation', async () => {
      const punctuation = '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~';
      const groupId = (punctuation + randomUUID()).padEnd(128, 'x');
      const sent = [message(), message()].map((it) => ({ ...it, groupId }));
      expect(await publisher().publish(sent.slice(0, 1))).toMatchObject([{ ok: true }]);
      expect(await publisher().publish(sent.slice(1))).toMatchObject([{ ok: true }]);
      expect(ids(await arrivals(sent))).toEqual(sent.map(({ eventId }) => eventId));
    });
  });
}

/** A message of an aggregate of its own. `data` is JSON text. */
function message(data = '{}'): Message {
  const eventId = randomUUID();
  const body = `{"specversion":"1.0","id":"${eventId}","source":"/test","type":"thing.happened","data":${data}}`;
  return {
    eventId,
    type: 'thing.happened',
    source: '/test',
    body,
    bytes: Buffer.byteLength(body),
    groupId: eventId,
    deduplicationId: eventId,
  };
}

async function rejection(failing: Promise<unknown>): Promise<PublishError> {
  const error = await failing.then(
    () => new Error('it did not fail'),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(PublishError);
  return error as PublishError;
}

/** What a connection gets once it has said something. */
type Answer = (socket: Socket) => unknown;

interface Loopback {
  readonly endpoint: string;
  /** Connections so far, and those that are open. */
  accepted(): number;
  open(): number;
  close(): Promise<void>;
}

/** Something on 127.0.0.1 that behaves as the test wants, whatever protocol is spoken to it. */
async function loopback(answer: Answer): Promise<Loopback> {
  const sockets = new Set<Socket>();
  let accepted = 0;
  const server = createServer((socket) => {
    accepted += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    socket.once('data', () => answer(socket));
    socket.resume();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    accepted: () => accepted,
    open: () => sockets.size,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
