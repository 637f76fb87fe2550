import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { type ErasureLog, s3ErasureLog } from '../shared/sealing/index.ts';

/** The log of erasures in a bucket, with three of S3's hundred calls in the bundle. */
export function bucketErasureLog(bucket: string, env: Readonly<Record<string, string | undefined>>): ErasureLog {
  const s3 = new S3Client({
    // A put that is repeated is refused if the first one arrived, and the log knows that.
    maxAttempts: 3,
    requestHandler: { connectionTimeout: 2_000, requestTimeout: 5_000, throwOnRequestTimeout: true },
    // An endpoint of one's own has no host name for each bucket.
    forcePathStyle: env['AWS_ENDPOINT_URL'] !== undefined || env['AWS_ENDPOINT_URL_S3'] !== undefined,
  });
  const client = {
    putObject: (input: ConstructorParameters<typeof PutObjectCommand>[0]) => s3.send(new PutObjectCommand(input)),
    listObjectsV2: (input: ConstructorParameters<typeof ListObjectsV2Command>[0]) =>
      s3.send(new ListObjectsV2Command(input)),
    getObject: (input: ConstructorParameters<typeof GetObjectCommand>[0]) => s3.send(new GetObjectCommand(input)),
  };
  return s3ErasureLog({ client, bucket });
}
