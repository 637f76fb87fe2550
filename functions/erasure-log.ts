import { type ErasureLog, s3ErasureLog } from '../shared/sealing/index.ts';
import { s3Calls } from './s3.ts';

/** The log of erasures in a bucket. */
export function bucketErasureLog(bucket: string, env: Readonly<Record<string, string | undefined>>): ErasureLog {
  const client = s3Calls({
    // A put that is repeated is refused if the first one arrived, and the log knows that.
    maxAttempts: 3,
    requestHandler: { connectionTimeout: 2_000, requestTimeout: 5_000, throwOnRequestTimeout: true },
    // An endpoint of one's own has no host name for each bucket.
    forcePathStyle: env['AWS_ENDPOINT_URL'] !== undefined || env['AWS_ENDPOINT_URL_S3'] !== undefined,
  });
  return s3ErasureLog({ client, bucket });
}
