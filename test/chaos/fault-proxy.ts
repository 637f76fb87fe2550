import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** What happens to one call on its way to the queue. */
export type Fault =
  | { readonly kind: 'pass' }
  /** Forwarded after a while. Longer than the caller's time-out makes it a late packet: it arrives when its sender has given up. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** Never forwarded: the connection breaks, or (hang) nobody answers. */
  | { readonly kind: 'drop'; readonly hang: boolean }
  /** Accepted by the queue, but the sender never learns it. */
  | { readonly kind: 'drop-answer'; readonly hang: boolean }
  /** Some entries are forwarded, the others answered as failed. `refuses` says for each entry. */
  | {
      readonly kind: 'half-refuse';
      readonly code: string;
      readonly senderFault: boolean;
      readonly refuses: (index: number) => boolean;
    }
  /** Answered at once, not forwarded. */
  | { readonly kind: 'answer'; readonly status: number; readonly type: string; readonly body: string }
  /** Forwarded, and the connection is cut in the middle of the answer. */
  | { readonly kind: 'cut-answer' };

export interface BatchEntry {
  readonly Id: string;
  readonly MessageBody: string;
  readonly MessageGroupId?: string;
  readonly MessageDeduplicationId?: string;
}

export interface Batch {
  readonly QueueUrl: string;
  readonly Entries: readonly BatchEntry[];
}

interface BatchAnswer {
  Successful?: { Id: string; SequenceNumber?: string }[];
  Failed?: { Id: string; SenderFault: boolean; Code: string; Message: string }[];
}

export interface FaultProxyOptions {
  /** Port of the queue on 127.0.0.1. */
  readonly upstreamPort: number;
  /** Decides for each SendMessageBatch; every other action passes. */
  plan(batch: Batch): Fault;
  /** Changes an entry before it is forwarded. */
  readonly rewrite?: (entry: BatchEntry, batch: Batch) => BatchEntry;
  /** The queue itself took this entry, whatever the sender hears of it. `place` is the queue's own sequence number. */
  accepted(queueUrl: string, entry: BatchEntry, place: number): void;
}

export interface FaultProxy {
  readonly port: number;
  /** Refuses connections for this long, and breaks those that are open. Milliseconds. */
  outage(ms: number): Promise<void>;
  close(): Promise<void>;
}

const ACTION = 'AmazonSQS.SendMessageBatch';

/** A reverse proxy before an SQS that speaks its JSON protocol. It lets calls fail in every way that a network and a service can. */
export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const sockets = new Set<Socket>();
  const server = createServer((incoming, response) => {
    // The queue is gone only when the run ends; a caller then hears what it would from a broken network.
    handle(incoming, response, options, agent).catch(() => incoming.socket.destroy());
  });
  server.keepAliveTimeout = 60_000;
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
  });
  const listen = (at: number): Promise<void> =>
    new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(at, '127.0.0.1', () => {
        server.off('error', reject);
        resolve();
      });
    });
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  await listen(0);
  const { port } = server.address() as AddressInfo;
  let closed = false;
  let turn = Promise.resolve();
  return {
    port,
    outage(ms) {
      turn = turn.then(async () => {
        if (closed) return;
        await stop();
        await delay(ms);
        await listen(port);
      });
      return turn;
    },
    async close() {
      closed = true;
      await turn;
      await stop();
      agent.destroy();
    },
  };
}

async function handle(
  incoming: IncomingMessage,
  response: ServerResponse,
  options: FaultProxyOptions,
  agent: Agent,
): Promise<void> {
  const body = await readAll(incoming);
  if (incoming.headers['x-amz-target'] !== ACTION) {
    const answer = await forward(incoming, body, options.upstreamPort, agent);
    reply(response, answer);
    return;
  }
  const batch = JSON.parse(body.toString('utf8')) as Batch;
  const fault = options.plan(batch);
  switch (fault.kind) {
    case 'pass':
      reply(response, await send(incoming, batch, options, agent));
      return;
    case 'delay':
      await delay(fault.ms);
      reply(response, await send(incoming, batch, options, agent));
      return;
    case 'drop':
      if (!fault.hang) incoming.socket.destroy();
      return;
    case 'drop-answer':
      await send(incoming, batch, options, agent);
      if (!fault.hang) incoming.socket.destroy();
      return;
    case 'half-refuse':
      reply(response, await refuseSome(incoming, batch, fault, options, agent));
      return;
    case 'answer':
      reply(response, { status: fault.status, type: fault.type, body: Buffer.from(fault.body) });
      return;
    case 'cut-answer': {
      const answer = await send(incoming, batch, options, agent);
      response.writeHead(answer.status, { 'content-type': answer.type, 'content-length': answer.body.length });
      response.write(answer.body.subarray(0, answer.body.length / 2), () => incoming.socket.destroy());
    }
  }
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: Buffer;
}

async function refuseSome(
  incoming: IncomingMessage,
  batch: Batch,
  fault: Extract<Fault, { kind: 'half-refuse' }>,
  options: FaultProxyOptions,
  agent: Agent,
): Promise<Answer> {
  const kept = batch.Entries.filter((_, index) => !fault.refuses(index));
  const refused = batch.Entries.filter((_, index) => fault.refuses(index));
  const answer: Answer =
    kept.length === 0
      ? { status: 200, type: 'application/x-amz-json-1.0', body: Buffer.from('{}') }
      : await send(incoming, { ...batch, Entries: kept }, options, agent);
  if (answer.status !== 200) return answer;
  const parsed = JSON.parse(answer.body.toString('utf8')) as BatchAnswer;
  const failed = refused.map(({ Id }) => ({
    Id,
    SenderFault: fault.senderFault,
    Code: fault.code,
    Message: 'refused by the fault proxy',
  }));
  return {
    ...answer,
    body: Buffer.from(
      JSON.stringify({ Successful: parsed.Successful ?? [], Failed: [...(parsed.Failed ?? []), ...failed] }),
    ),
  };
}

/** Forwards a batch and reports what the queue took of it. */
async function send(
  incoming: IncomingMessage,
  batch: Batch,
  options: FaultProxyOptions,
  agent: Agent,
): Promise<Answer> {
  const { rewrite } = options;
  const entries = rewrite === undefined ? batch.Entries : batch.Entries.map((entry) => rewrite(entry, batch));
  const body = Buffer.from(JSON.stringify({ ...batch, Entries: entries }));
  const answer = await forward(incoming, body, options.upstreamPort, agent);
  if (answer.status === 200) {
    const { Successful = [] } = JSON.parse(answer.body.toString('utf8')) as BatchAnswer;
    const byId = new Map(batch.Entries.map((entry) => [entry.Id, entry]));
    for (const { Id, SequenceNumber } of Successful) {
      const entry = byId.get(Id);
      if (entry !== undefined) options.accepted(batch.QueueUrl, entry, Number(SequenceNumber));
    }
  }
  return answer;
}

function forward(incoming: IncomingMessage, body: Buffer, port: number, agent: Agent): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const { 'transfer-encoding': _, ...headers } = incoming.headers;
    const outgoing = request(
      {
        host: '127.0.0.1',
        port,
        agent,
        method: incoming.method,
        path: incoming.url,
        headers: { ...headers, 'content-length': String(body.length) },
      },
      (answer) => {
        readAll(answer).then(
          (read) =>
            resolve({ status: answer.statusCode ?? 500, type: String(answer.headers['content-type']), body: read }),
          reject,
        );
      },
    );
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

function reply(response: ServerResponse, answer: Answer): void {
  response.writeHead(answer.status, { 'content-type': answer.type, 'content-length': answer.body.length });
  response.end(answer.body);
}

async function readAll(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
