import dgram from 'node:dgram';
import dns from 'node:dns';
import net from 'node:net';

/**
 * Makes every attempt to reach another process fail, loopback included: a unit test depends on nothing that is running.
 * `fetch`, `http`, `tls`, `pg` and the AWS SDK all end in `Socket.connect`.
 */
class NetworkInUnitTest extends Error {
  constructor(what: string) {
    super(`${what}: unit tests may not use the network. Pass the port in, or move the test to test/integration.`);
  }
}

net.Socket.prototype.connect = () => {
  throw new NetworkInUnitTest('a socket was connected');
};
net.Server.prototype.listen = () => {
  throw new NetworkInUnitTest('a server was started');
};
dgram.Socket.prototype.send = () => {
  throw new NetworkInUnitTest('a datagram was sent');
};
for (const name of ['lookup', 'resolve', 'resolve4', 'resolve6'] as const) {
  Object.defineProperty(dns, name, {
    value: () => {
      throw new NetworkInUnitTest('a name was looked up');
    },
  });
}
