import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';

export interface Authority {
  readonly name: string;
  readonly certificate: string;
  readonly privateKey: KeyObject;
}

export interface Served {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority that signs itself, as those of RDS do. */
export function authority(name: string): Authority {
  const { privateKey, publicKey } = keys();
  // critical, CA: true
  const constraints = sequence(oid('551d13'), element(0x01, bytes('ff')), octets(sequence(element(0x01, bytes('ff')))));
  return {
    name,
    privateKey,
    certificate: certificate({ issuer: name, subject: name, publicKey, privateKey }, constraints),
  };
}

/** The certificate of a server that is reached as `host`. */
export function serverCertificate({ name, privateKey }: Authority, host: string): Served {
  const own = keys();
  const hosts = sequence(oid('551d11'), octets(sequence(element(0x82, Buffer.from(host)))));
  return {
    cert: certificate({ issuer: name, subject: host, publicKey: own.publicKey, privateKey }, hosts),
    key: own.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
  };
}

const keys = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });

/** X.509 version 3, signed by ECDSA with SHA-256, good from 2020 to 2049. */
function certificate(
  of: { issuer: string; subject: string; publicKey: KeyObject; privateKey: KeyObject },
  ...extensions: readonly Buffer[]
): string {
  const algorithm = sequence(oid('2a8648ce3d040302'));
  const time = (text: string) => element(0x17, Buffer.from(text));
  const body = sequence(
    element(0xa0, element(0x02, bytes('02'))),
    element(0x02, bytes('01')),
    algorithm,
    named(of.issuer),
    sequence(time('200101000000Z'), time('491231235959Z')),
    named(of.subject),
    of.publicKey.export({ format: 'der', type: 'spki' }),
    element(0xa3, sequence(...extensions)),
  );
  const signature = sign('sha256', body, of.privateKey);
  const der = sequence(body, algorithm, element(0x03, Buffer.concat([bytes('00'), signature])));
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

const bytes = (hex: string): Buffer => Buffer.from(hex, 'hex');
const oid = (hex: string): Buffer => element(0x06, bytes(hex));
const octets = (content: Buffer): Buffer => element(0x04, content);
const sequence = (...parts: readonly Buffer[]): Buffer => element(0x30, Buffer.concat(parts));
const named = (name: string): Buffer =>
  sequence(element(0x31, sequence(oid('550403'), element(0x0c, Buffer.from(name)))));

/** DER: a tag, a length, a content. */
function element(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
