import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { afterAll } from 'vitest';

export interface SilentProxy {
  readonly port: number;
  /** Connections that are open now go on without a word: what is sent on them is lost, and nobody is told. */
  silence(): void;
  /** Breaks the connections that are open now, also those that were swallowed. */
  cut(): void;
  /** New connections are accepted and never answered, until `answer`. */
  swallow(): void;
  answer(): void;
}

/** A TCP proxy on 127.0.0.1 that can fall silent, as a firewall does that has forgotten a connection. Gone after the file's tests. */
export async function silentProxy(upstreamPort: number): Promise<SilentProxy> {
  const pairs = new Set<[Socket, Socket]>();
  const sockets = new Set<Socket>();
  let swallowing = false;
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  };
  const server = createServer((client) => {
    keep(client);
    if (swallowing) return;
    const upstream = connect(upstreamPort, '127.0.0.1');
    keep(upstream);
    client.pipe(upstream).pipe(client);
    const pair: [Socket, Socket] = [client, upstream];
    pairs.add(pair);
    client.on('close', () => {
      pairs.delete(pair);
      upstream.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  afterAll(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    port: (server.address() as AddressInfo).port,
    silence() {
      for (const [client, upstream] of pairs) {
        client.unpipe(upstream);
        upstream.unpipe(client);
        client.resume();
        upstream.resume();
      }
    },
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    swallow: () => void (swallowing = true),
    answer: () => void (swallowing = false),
  };
}
