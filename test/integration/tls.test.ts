import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { clientConfig } from '../../shared/database/index.ts';
import { authority, serverCertificate, type Served } from '../support/certificates.ts';

const rds = authority('Amazon RDS eu-central-1 Root CA');
const somebody = authority('Somebody');

beforeEach(() => {
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'AKIAIOSFODNN7EXAMPLE');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'example');
});
afterEach(() => void vi.unstubAllEnvs());

/** Speaks as much of PostgreSQL as a connection takes: TLS where it has a certificate, then asks for a password and is content with any. */
async function server(served: Served | undefined): Promise<{ port: number; heard: Buffer[] }> {
  const heard: Buffer[] = [];
  const open = new Set<Socket>();
  const listening = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => {});
    // What comes first is a request for TLS.
    socket.once('data', () => {
      socket.write(served === undefined ? 'N' : 'S');
      const inner = served === undefined ? socket : new TLSSocket(socket, { isServer: true, ...served });
      inner.on('error', () => {});
      inner.on('data', (data: Buffer) => {
        heard.push(data);
        const isPassword = data[0] === 'p'.charCodeAt(0);
        inner.write(Buffer.from(isPassword ? '5200000008000000005a0000000549' : '520000000800000003', 'hex'));
      });
    });
  }).listen(0, '127.0.0.1');
  await once(listening, 'listening');
  onTestFinished(() => {
    for (const socket of open) socket.destroy();
    listening.close();
  });
  return { port: (listening.address() as AddressInfo).port, heard };
}

/** Connects as a function does on AWS. */
async function connect(port: number): Promise<void> {
  const client = new pg.Client(
    clientConfig({
      auth: 'iam',
      host: 'localhost',
      port,
      database: 'sealed_outbox',
      user: 'sealed_relay',
      region: 'eu-central-1',
      certificateAuthorities: rds.certificate,
    }),
  );
  client.on('error', () => {});
  onTestFinished(() => void client.end().catch(() => {}));
  await client.connect();
}

describe('a connection to a database on AWS', () => {
  it('is made to the host that was named, under an authority that was given, and then the token is shown', async () => {
    const { port, heard } = await server(serverCertificate(rds, 'localhost'));
    await connect(port);
    expect(Buffer.concat(heard).toString()).toMatch(/Action=connect&DBUser=sealed_relay.*X-Amz-Expires=900/);
  });

  it.each([
    ['of another host', () => serverCertificate(rds, 'elsewhere.example'), 'ERR_TLS_CERT_ALTNAME_INVALID'],
    [
      'of an authority that was not given',
      () => serverCertificate(somebody, 'localhost'),
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
    ],
    [
      'of one that calls itself as ours',
      () => serverCertificate(authority(rds.name), 'localhost'),
      'CERT_SIGNATURE_FAILURE',
    ],
  ])('is refused for a certificate %s, before anything was said', async (_about, served, code) => {
    const { port, heard } = await server(served());
    await expect(connect(port)).rejects.toMatchObject({ code });
    expect(heard).toEqual([]);
  });

  it('is not made without TLS, whatever the server wants', async () => {
    const { port, heard } = await server(undefined);
    await expect(connect(port)).rejects.toThrow(/does not support SSL/);
    expect(heard).toEqual([]);
  });
});
