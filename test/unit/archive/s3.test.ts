import { Readable } from 'node:stream';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3 } from '@aws-sdk/client-s3';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { type Archive, s3Archive } from '../../../shared/archive/index.ts';
import { archiveConformance } from '../../support/archive-conformance.ts';

/** A bucket that answers as S3 does, three names a page. */
function bucket(): Archive {
  const objects = new Map<string, Uint8Array>();
  const client = new S3({ region: 'eu-central-1' });
  const mock = mockClient(client);
  mock.on(PutObjectCommand).callsFake(({ Key, Body }) => {
    objects.set(Key, Body);
    return {};
  });
  mock.on(ListObjectsV2Command).callsFake(({ Prefix, ContinuationToken }) => {
    const from = Number(ContinuationToken ?? 0);
    const keys = [...objects.keys()].filter((key) => key.startsWith(Prefix)).toSorted();
    return {
      Contents: keys.slice(from, from + 3).map((Key) => ({ Key })),
      ...(from + 3 < keys.length && { NextContinuationToken: String(from + 3) }),
    };
  });
  mock.on(GetObjectCommand).callsFake(({ Key }) => ({ Body: Readable.from([objects.get(Key)]) }));
  return s3Archive({ client, bucket: 'archive' });
}

archiveConformance(bucket);

describe('a bucket', () => {
  it('that refuses an object is said, so that nothing is deleted', async () => {
    const client = new S3({ region: 'eu-central-1' });
    mockClient(client)
      .on(PutObjectCommand)
      .rejects(Object.assign(new Error('no'), { name: 'AccessDenied' }));
    await expect(s3Archive({ client, bucket: 'archive' }).put('events/x', new Uint8Array())).rejects.toThrow('no');
  });
});
