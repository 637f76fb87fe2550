import { randomUUID } from 'node:crypto';
import { S3 } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe } from 'vitest';
import { type ErasureLog, s3ErasureLog } from '../../shared/sealing/index.ts';
import { erasureLogConformance } from '../support/erasure-log-conformance.ts';
import { foundLocalStack } from '../support/found-localstack.ts';

const localstack = await foundLocalStack();

describe('S3 on LocalStack', () => {
  let client: S3;
  const buckets = Array.from({ length: 10 }, () => `erasures-${randomUUID()}`);

  beforeAll(async () => {
    if ('missing' in localstack) return;
    client = new S3({ ...localstack, forcePathStyle: true });
    for (const Bucket of buckets) {
      await client.createBucket({ Bucket, CreateBucketConfiguration: { LocationConstraint: 'eu-central-1' } });
    }
  });
  beforeEach((test) => {
    if ('missing' in localstack) test.skip(localstack.missing);
  });
  afterAll(() => client?.destroy());

  erasureLogConformance((): ErasureLog => {
    const bucket = buckets.pop();
    if (bucket === undefined) throw new Error('more buckets are needed');
    return s3ErasureLog({ client, bucket });
  });
});
