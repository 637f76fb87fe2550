import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Fault, isFault } from './faults.ts';
import { createMailbox, mailFrom, type SentMail } from './mailbox.ts';

/** A provider of mail as there are many, over HTTP, on this machine. What it "sends" it keeps. */
export interface MailProvider {
  readonly url: string;
  readonly mails: () => readonly SentMail[];
  /** Requests to send, with their keys, in the order of arrival, whatever became of them. */
  readonly requests: () => readonly string[];
  readonly lookups: () => number;
  /** The next requests go wrong, one fault each. */
  plan(...faults: readonly Fault[]): void;
  /** Lets go all that is `late`; how many. */
  release(): number;
  close(): Promise<void>;
}

const MAX_BODY_BYTES = 65_536;

/**
 * Starts it on a free port of 127.0.0.1.
 *
 *   POST /mails           `Idempotency-Key` and {to, subject, text, reference}: 201, or 200 with `Idempotency-Replayed` for a repeat;
 *                         a key that was used for another mail: 422. `X-Fault` makes this one request go wrong.
 *   GET /mails            all that was sent; `?idempotency-key=…`: the one, or 404
 *   POST /admin/faults    {"faults": ["fail", …]}: what the next requests meet
 *   POST /admin/release   lets go what is `late`
 */
export async function startMailProvider(): Promise<MailProvider> {
  const mailbox = createMailbox();
  const planned: Fault[] = [];
  const late: (() => void)[] = [];
  const requests: string[] = [];
  let lookups = 0;

  const release = (): number => {
    const waiting = late.splice(0);
    for (const go of waiting) go();
    return waiting.length;
  };

  const send = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const key = request.headers['idempotency-key'];
    const mail = mailFrom(await bodyOf(request));
    if (typeof key !== 'string' || key === '' || mail === undefined) {
      return answer(response, 400, { error: 'an Idempotency-Key and a mail are needed' });
    }
    requests.push(key);
    const wanted = request.headers['x-fault'];
    const fault = isFault(wanted) ? wanted : nextFault(planned, (it) => it !== 'lookup-fails');
    if (fault === 'fail') return answer(response, 500, { error: 'failed on demand' });
    if (fault === 'refuse') return answer(response, 422, { error: 'refused on demand' });
    if (fault === 'late') await new Promise<void>((go) => late.push(go));
    const sent = mailbox.send(key, mail);
    if (fault === 'act-and-hang') return;
    if (fault === 'act-and-drop') {
      response.destroy();
      return;
    }
    if (sent.kind === 'key-reused') return answer(response, 422, { error: 'the key was used for another mail' });
    if (sent.kind === 'sent') return answer(response, 201, sent.mail);
    answer(response, 200, sent.mail, { 'idempotency-replayed': 'true' });
  };

  const find = (key: string, response: ServerResponse): void => {
    lookups += 1;
    if (nextFault(planned, (it) => it === 'lookup-fails') !== undefined) {
      return answer(response, 500, { error: 'failed on demand' });
    }
    const mail = mailbox.find(key);
    return mail === undefined ? answer(response, 404, { error: 'not sent' }) : answer(response, 200, mail);
  };

  const route = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', 'http://127.0.0.1');
    const key = url.searchParams.get('idempotency-key');
    switch (`${request.method} ${url.pathname}`) {
      case 'POST /mails':
        return send(request, response);
      case 'GET /mails':
        return key === null ? answer(response, 200, { mails: mailbox.all() }) : find(key, response);
      case 'POST /admin/faults': {
        const { faults } = JSON.parse(await bodyOf(request)) as { faults?: unknown };
        if (!Array.isArray(faults) || !faults.every(isFault)) return answer(response, 400, { error: 'unknown fault' });
        planned.push(...faults);
        return answer(response, 200, { planned });
      }
      case 'POST /admin/release':
        return answer(response, 200, { released: release() });
      default:
        return answer(response, 404, { error: 'no such resource' });
    }
  };

  const server = createServer((request, response) => {
    route(request, response).catch(() => answer(response, 400, { error: 'the request cannot be read' }));
  });
  await new Promise<void>((listening, failed) => {
    server.once('error', failed);
    server.listen(0, '127.0.0.1', listening);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mails: () => mailbox.all(),
    requests: () => requests,
    lookups: () => lookups,
    plan: (...faults) => planned.push(...faults),
    release,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed());
        server.closeAllConnections();
      }),
  };
}

/** Takes the first planned fault that is meant for this kind of request. */
function nextFault(planned: Fault[], meant: (fault: Fault) => boolean): Fault | undefined {
  const index = planned.findIndex(meant);
  return index === -1 ? undefined : planned.splice(index, 1)[0];
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BODY_BYTES) throw new Error('too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function answer(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  if (response.destroyed || response.headersSent) return;
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}
