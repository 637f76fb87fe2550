/**
 * A queue that is always 8 ms away: takes SendMessageBatch and GetQueueAttributes as SQS does (AWS JSON 1.0), answers after a delay, keeps no
 * message. It looks at what arrives: whether first occurrences of a group come in order, and when.
 */
import { createHash } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answer, now } from './harness/process.ts';
import type { Arrival, QueueCounts, QueueStart } from './harness/queue.ts';

interface Entry {
  readonly Id: string;
  readonly MessageBody: string;
  readonly MessageGroupId?: string;
  readonly MessageDeduplicationId?: string;
}

let delayMs = 8;
let keepArrivals = false;
let arrivals: Arrival[] = [];
let highest = new Map<string, number>();
let seen = new Set<string>();
let counts: QueueCounts = empty();

function empty(): QueueCounts {
  return { calls: 0, accepted: 0, repeats: 0, orderBreaks: 0, firstAt: 0, lastAt: 0 };
}

/** `"sequence":"7"` of the envelope; it stands before the data. Searched for, not parsed: the queue should cost little. */
function sequenceOf(body: string): number {
  const start = body.indexOf('"sequence":"');
  return start < 0 ? 0 : Number.parseInt(body.slice(start + 12, start + 32), 10);
}

function look(entry: Entry, at: number): void {
  counts.accepted += 1;
  const { MessageGroupId: group = '', MessageDeduplicationId: id = '' } = entry;
  if (seen.has(id)) {
    counts.repeats += 1;
    return;
  }
  seen.add(id);
  const sequence = sequenceOf(entry.MessageBody);
  if (sequence < (highest.get(group) ?? 0)) counts.orderBreaks += 1;
  else highest.set(group, sequence);
  if (keepArrivals) arrivals.push([id, group, at]);
}

function sendMessageBatch(body: string, response: ServerResponse): void {
  const at = now();
  counts.calls += 1;
  if (counts.firstAt === 0) counts.firstAt = at;
  const { Entries } = JSON.parse(body) as { Entries: Entry[] };
  const Successful = Entries.map((entry) => {
    look(entry, at);
    return {
      Id: entry.Id,
      MessageId: `00000000-0000-4000-8000-${String(counts.accepted).padStart(12, '0')}`,
      MD5OfMessageBody: createHash('md5').update(entry.MessageBody).digest('hex'),
      SequenceNumber: String(counts.accepted).padStart(20, '0'),
    };
  });
  const text = JSON.stringify({ Successful, Failed: [] });
  setTimeout(() => {
    counts.lastAt = now();
    respond(response, text);
  }, delayMs);
}

function respond(response: ServerResponse, text: string): void {
  response.writeHead(200, {
    'content-type': 'application/x-amz-json-1.0',
    'content-length': Buffer.byteLength(text),
    'x-amzn-requestid': '00000000-0000-0000-0000-000000000000',
  });
  response.end(text);
}

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const action = request.headers['x-amz-target'];
    const [first] = chunks;
    const body = chunks.length === 1 && first !== undefined ? first.toString() : Buffer.concat(chunks).toString();
    if (action === 'AmazonSQS.SendMessageBatch') sendMessageBatch(body, response);
    else if (action === 'AmazonSQS.GetQueueAttributes') respond(response, '{"Attributes":{"FifoQueue":"true"}}');
    else response.writeHead(400).end('{"__type":"com.amazonaws.sqs#UnsupportedOperation"}');
  });
});
server.keepAliveTimeout = 600_000;

answer({
  async start(input: QueueStart) {
    ({ delayMs } = input);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return (server.address() as AddressInfo).port;
  },
  /** Forgets what arrived so far. */
  reset(input: { keepArrivals: boolean }) {
    ({ keepArrivals } = input);
    arrivals = [];
    highest = new Map();
    seen = new Set();
    counts = empty();
  },
  counts: () => counts,
  arrivals: () => arrivals,
});
