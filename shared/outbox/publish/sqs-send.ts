import { createHmac, hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import {
  GetQueueAttributesCommand,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SendMessageBatchResult,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { HttpRequest } from '@smithy/core/protocols';
import { SignatureV4 } from '@smithy/signature-v4';

/** What a publisher asks of its queue. Rejects when the call as a whole failed. */
export interface SqsCalls {
  /** Whether the queue says that it is a FIFO queue. */
  isFifo(abortSignal: AbortSignal): Promise<boolean>;
  /** One SendMessageBatch. */
  send(
    entries: readonly SendMessageBatchRequestEntry[],
    abortSignal: AbortSignal,
  ): Promise<Pick<SendMessageBatchResult, 'Successful' | 'Failed'>>;
}

/**
 * The relay's one hot call, on the SDK's own signer, credentials, clock and connections, but without its serialisation and middleware; what both
 * cost is in `docs/decisions/0009-lean-call.md`.
 *
 * The SDK makes the first call (the preflight, as a rule), from which the resolved address is learnt, and the next one after every failure: it
 * knows how to correct the clock, and its errors are the ones that others know.
 */
export function sqsCalls(client: SQSClient, queueUrl: string): SqsCalls {
  let address: Address | undefined;
  let healthy = false;
  const signer = new SignatureV4({
    service: 'sqs',
    region: client.config.region,
    credentials: client.config.credentials,
    sha256: Sha256,
  });
  // On the command, not on the client: publishers may share that, and each learns from the calls of its own queue alone.
  const learning = <C extends GetQueueAttributesCommand | SendMessageBatchCommand>(command: C): C => {
    // Both commands' stacks are typed by their own input alone, which this does not read.
    (command as SendMessageBatchCommand).middlewareStack.add(
      (next) => async (args) => {
        const used = addressOf(args.request);
        const answer = await next(args);
        address = used ?? address;
        healthy = true;
        return answer;
      },
      { step: 'finalizeRequest', name: 'sealedOutboxAddress' },
    );
    return command;
  };

  return {
    async isFifo(abortSignal) {
      const command = new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['FifoQueue'] });
      const { Attributes } = await client.send(learning(command), { abortSignal });
      return Attributes?.['FifoQueue'] === 'true';
    },

    async send(entries, abortSignal) {
      // Unhealthy after a failure only: while one call is on its way, others start.
      if (!healthy || address === undefined) {
        const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries: [...entries] });
        return client.send(learning(command), { abortSignal });
      }
      try {
        const body = Buffer.from(JSON.stringify({ QueueUrl: queueUrl, Entries: entries }));
        return verified(entries, await send(client, signer, address, body, abortSignal));
      } catch (error) {
        healthy = false;
        throw error;
      }
    },
  };
}

interface Address {
  readonly protocol: string;
  readonly hostname: string;
  readonly port?: number;
  readonly path: string;
}

function addressOf(request: unknown): Address | undefined {
  if (!HttpRequest.isInstance(request)) return undefined;
  const { protocol, hostname, port, path } = request;
  return { protocol, hostname, path, ...(port !== undefined && { port }) };
}

async function send(
  client: SQSClient,
  signer: SignatureV4,
  address: Address,
  // Bytes, not text: it is measured, hashed and sent, and each would encode it again.
  body: Buffer,
  abortSignal: AbortSignal,
): Promise<Pick<SendMessageBatchResult, 'Successful' | 'Failed'>> {
  const { hostname, port } = address;
  const request = new HttpRequest({
    ...address,
    method: 'POST',
    headers: {
      host: port === undefined ? hostname : `${hostname}:${port}`,
      'content-type': 'application/x-amz-json-1.0',
      'content-length': String(body.length),
      'x-amz-target': 'AmazonSQS.SendMessageBatch',
      // Error codes as the SDK reports them.
      'x-amzn-query-mode': 'true',
    },
    body,
  });
  const signingDate = new Date(Date.now() + client.config.systemClockOffset);
  const signed = await signer.sign(request, { signingDate });
  const { response } = await client.config.requestHandler.handle(signed as HttpRequest, { abortSignal });
  const text = await textOf(response.body);
  if (response.statusCode === 200) return JSON.parse(text);
  throw errorOf(response.statusCode, response.headers['x-amzn-query-error'], text);
}

/** An async iterator over the chunks would cost more than their JSON. */
function textOf(answer: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    answer.setEncoding('utf8');
    answer.on('data', (chunk: string) => (text += chunk));
    answer.on('end', () => resolve(text));
    answer.on('error', reject);
    answer.on('close', () => reject(Object.assign(new Error('the answer broke off'), { code: 'ECONNRESET' })));
  });
}

/** SHA-256, with a secret HMAC, of one piece of data, as the signer asks for it. The SDK's own makes a stream of each, and a copy. */
class Sha256 {
  readonly #secret: string | Uint8Array | undefined;
  #data: Uint8Array = new Uint8Array();

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#secret = secret === undefined || typeof secret === 'string' ? secret : bytesOf(secret);
  }

  update(data: Uint8Array): void {
    this.#data = data;
  }

  async digest(): Promise<Uint8Array> {
    if (this.#secret === undefined) return hash('sha256', this.#data, 'buffer');
    return createHmac('sha256', this.#secret).update(this.#data).digest();
  }

  reset(): void {
    this.#data = new Uint8Array();
  }
}

function bytesOf(source: ArrayBuffer | ArrayBufferView): Uint8Array {
  return ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);
}

/** As the SDK throws it. `AWS.SimpleQueueService.NonExistentQueue;Sender` in the header, or `com.amazonaws.sqs#QueueDoesNotExist` in the body. */
function errorOf(status: number, header: string | undefined, text: string): Error {
  let type: unknown;
  let message: unknown;
  try {
    ({ __type: type, message } = JSON.parse(text));
  } catch {
    // No JSON: a proxy or a load balancer answered.
  }
  const name = header?.split(';')[0] ?? (typeof type === 'string' ? type.split('#').at(-1) : undefined) ?? 'Unknown';
  const said = typeof message === 'string' ? message : 'the call failed';
  return Object.assign(new Error(said), { name, $metadata: { httpStatusCode: status } });
}

/** SQS names the MD5 of what it stored: one that differs was damaged on the way. */
function verified(
  entries: readonly SendMessageBatchRequestEntry[],
  { Successful = [], Failed = [] }: Pick<SendMessageBatchResult, 'Successful' | 'Failed'>,
): Pick<SendMessageBatchResult, 'Successful' | 'Failed'> {
  const bodies = new Map(entries.map((entry) => [entry.Id, entry.MessageBody ?? '']));
  const damaged = Successful.filter(
    ({ Id, MD5OfMessageBody }) => MD5OfMessageBody !== hash('md5', bodies.get(Id) ?? ''),
  );
  if (damaged.length === 0) return { Successful, Failed };
  return {
    Successful: Successful.filter((entry) => !damaged.includes(entry)),
    Failed: [
      ...Failed,
      ...damaged.map(({ Id }) => ({
        Id,
        Code: 'InvalidChecksum',
        SenderFault: false,
        Message: 'the queue stored other bytes than were sent',
      })),
    ],
  };
}
