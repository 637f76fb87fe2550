import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What becomes of a call on its way to KMS. */
export type KmsFault =
  | null
  /** Answered in KMS's words, and not forwarded. */
  | { readonly status: number; readonly type: string }
  /** The connection breaks, or nobody ever answers. */
  | 'broken'
  | 'silent';

export interface KmsProxy {
  readonly endpoint: string;
  fault: KmsFault;
  close(): Promise<void>;
}

/** A proxy on 127.0.0.1 before a KMS, that lets all calls fail in one way until told otherwise. */
export async function startKmsProxy(upstream: string): Promise<KmsProxy> {
  const answer = async (request: AsyncIterable<Buffer>, headers: Headers, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { fault } = proxy;
    if (fault === 'silent') return;
    if (fault === 'broken') return void response.destroy();
    if (fault !== null) {
      response.writeHead(fault.status, { 'content-type': 'application/x-amz-json-1.1', 'x-amzn-requestid': 'none' });
      return void response.end(JSON.stringify({ __type: fault.type, message: 'as the test wants it' }));
    }
    headers.delete('host');
    headers.delete('connection');
    headers.delete('content-length');
    const passed = await fetch(upstream, { method: 'POST', headers, body: Buffer.concat(chunks) });
    response.writeHead(passed.status, { 'content-type': 'application/x-amz-json-1.1' });
    response.end(Buffer.from(await passed.arrayBuffer()));
  };
  const server = createServer((request, response) => {
    const headers = new Headers(request.headers as Record<string, string>);
    answer(request, headers, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy: KmsProxy = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fault: null,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return proxy;
}
