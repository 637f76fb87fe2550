import { createHash, createHmac } from 'node:crypto';
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
 * The password of IAM database authentication: a presigned request `connect` (Signature Version 4), good for 15 minutes, made without any
 * call over the network.
 *
 * Forty lines here instead of `@aws-sdk/rds-signer`, because that brings the SDK's whole chain of credential providers:
 * a consumer, which needs nothing else of the SDK, grows from 160 to 557 KB and its cold import from 50 to 115 ms. A test
 * holds the result against that package's.
 */
export function rdsToken({ host, port, user, region, credentials, now }: TokenRequest): string {
  const time = now.toISOString().replace(/[-:]|\.\d{3}/g, '');
  const day = time.slice(0, 8);
  const scope = `${day}/${region}/rds-db/aws4_request`;
  const query = Object.entries({
    Action: 'connect',
    DBUser: user,
    'X-Amz-Algorithm': 'AWS4-HMAC-SHA256',
    'X-Amz-Credential': `${credentials.accessKeyId}/${scope}`,
    'X-Amz-Date': time,
    'X-Amz-Expires': String(LIFETIME),
    ...(credentials.sessionToken === undefined ? {} : { 'X-Amz-Security-Token': credentials.sessionToken }),
    'X-Amz-SignedHeaders': 'host',
  })
    .map(([name, value]) => `${name}=${encode(value)}`)
    .join('&');
  const request = ['GET', '/', query, `host:${host}:${port}`, '', 'host', sha256('')].join('\n');
  const toSign = ['AWS4-HMAC-SHA256', time, scope, sha256(request)].join('\n');
  const key = [day, region, 'rds-db', 'aws4_request'].reduce<string | Buffer>(
    (secret, part) => createHmac('sha256', secret).update(part).digest(),
    `AWS4${credentials.secretAccessKey}`,
  );
  return `${host}:${port}/?${query}&X-Amz-Signature=${createHmac('sha256', key).update(toSign).digest('hex')}`;
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

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
