import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { afterAll } from 'vitest';

/** What becomes of a new connection to the database. */
export type ConnectionFault =
  | 'pass'
  /** Accepted, and never answered. */
  | 'silent'
  /** Accepted, and broken at once. */
  | 'broken'
  /** Answered by the server's refusal, with this SQLSTATE. */
  | { readonly refused: string };

export interface DatabaseProxy {
  readonly port: number;
  fault: ConnectionFault;
  /** Called when a connection came that nobody will answer. */
  onSilent: () => void;
  /** Breaks all connections that are open. */
  cut(): void;
  /** Connections that were let through so far. */
  readonly passed: number;
}

/** A proxy on 127.0.0.1 before a PostgreSQL, whose new connections fare as the test says. Gone after the file's tests. */
export async function databaseProxy(upstreamPort: number): Promise<DatabaseProxy> {
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  };
  let passed = 0;
  const server = createServer((client) => {
    keep(client);
    const { fault } = proxy;
    if (fault === 'silent') return proxy.onSilent();
    if (fault === 'broken') return void client.destroy();
    // Once the greeting of the client is here, as the server does.
    if (fault !== 'pass') return void client.once('data', () => client.end(refusal(fault.refused)));
    passed += 1;
    const upstream = connect(upstreamPort, '127.0.0.1');
    keep(upstream);
    client.pipe(upstream).pipe(client);
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const proxy = {
    port: (server.address() as AddressInfo).port,
    fault: 'pass' as ConnectionFault,
    onSilent: (): void => {},
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    get passed() {
      return passed;
    },
  };
  afterAll(() => {
    proxy.cut();
    server.close();
  });
  return proxy;
}

/** An ErrorResponse of PostgreSQL's protocol. */
function refusal(sqlState: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${sqlState}\0Mas the test wants it\0\0`);
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}
