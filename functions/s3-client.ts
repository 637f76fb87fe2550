import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import type { S3Calls } from './s3.ts';

/**
 * S3 with three of its hundred calls in the bundle: `S3`, which has a method for each, would bring them all. A put may be sent three times: the archive
 * writes the same object again, and the log of erasures knows whether the first one arrived.
 *
 * @param requestTimeout of each try. Milliseconds
 */
export function s3Client(requestTimeout: number, env: Readonly<Record<string, string | undefined>>): S3Calls {
  const s3 = new S3Client({
    maxAttempts: 3,
    requestHandler: { connectionTimeout: 2_000, requestTimeout, throwOnRequestTimeout: true },
    // An endpoint of one's own has no host name for each bucket.
    forcePathStyle: env['AWS_ENDPOINT_URL'] !== undefined || env['AWS_ENDPOINT_URL_S3'] !== undefined,
  });
  return {
    putObject: (input) => s3.send(new PutObjectCommand(input)),
    listObjectsV2: (input) => s3.send(new ListObjectsV2Command(input)),
    getObject: (input) => s3.send(new GetObjectCommand(input)),
    destroy: () => s3.destroy(),
  };
}
