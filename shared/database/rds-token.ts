import { Sha256 } from '@smithy/core/checksum';
import { HttpRequest } from '@smithy/core/protocols';
import { SignatureV4 } from '@smithy/signature-v4';
import { SealedOutboxError } from '../errors/index.ts';

/** Keys of the function's role, as Lambda puts them into the environment. */
export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

export interface TokenRequest {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly region: string;
  readonly credentials: Credentials;
  readonly now: Date;
}

/** Most that RDS accepts. Seconds. */
const LIFETIME = 900;

/**
 * The password of IAM database authentication: a presigned request `connect`, good for 15 minutes, made without any call over
 * the network.
 *
 * What `@aws-sdk/rds-signer` does with the same signer, without the SDK's chain of credential providers that comes with it: a
 * consumer, which needs nothing else of the SDK, would grow to 557 KB and its cold import from 50 to 115 ms. A test
 * holds the result against that package's.
 */
export async function rdsToken({ host, port, user, region, credentials, now }: TokenRequest): Promise<string> {
  const signer = new SignatureV4({ service: 'rds-db', region, credentials, sha256: Sha256 });
  const request = new HttpRequest({
    method: 'GET',
    protocol: 'https:',
    hostname: host,
    port,
    query: { Action: 'connect', DBUser: user },
    headers: { host: `${host}:${port}` },
  });
  const { query } = await signer.presign(request, { expiresIn: LIFETIME, signingDate: now });
  const pairs = Object.entries(query ?? {}).map(([name, value]) => `${encode(name)}=${encode(String(value))}`);
  return `${host}:${port}/?${pairs.join('&')}`;
}

/**
 * The role's keys from the environment, read at every connect because they change.
 *
 * @throws SealedOutboxError (`DATABASE_CONFIG`) where there are none
 */
export function environmentCredentials(env: Readonly<Record<string, string | undefined>>): Credentials {
  const accessKeyId = env['AWS_ACCESS_KEY_ID'];
  const secretAccessKey = env['AWS_SECRET_ACCESS_KEY'];
  const sessionToken = env['AWS_SESSION_TOKEN'];
  if (!accessKeyId || !secretAccessKey) {
    throw new SealedOutboxError(
      'DATABASE_CONFIG',
      'DATABASE_AUTH=iam needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which Lambda sets: nothing was connected.',
    );
  }
  return { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) };
}

/** RFC 3986, as Signature Version 4 asks: everything but letters, digits and `-_.~`. */
function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
