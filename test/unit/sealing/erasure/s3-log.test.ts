import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3 } from '@aws-sdk/client-s3';
import { mockClient } from 'aws-sdk-client-mock';
import { describe, expect, it } from 'vitest';
import { type ErasureLog, s3ErasureLog } from '../../../../shared/sealing/index.ts';
import { erasureLogConformance } from '../../../support/erasure-log-conformance.ts';

const answered = (name: string, httpStatusCode: number) =>
  Object.assign(new Error('as S3 says it'), { name, $metadata: { httpStatusCode } });

/** A bucket that answers as S3 does, three names a page. */
function bucket(): ErasureLog {
  const objects = new Map<string, Uint8Array>();
  const client = new S3({ region: 'eu-central-1' });
  const mock = mockClient(client);
  mock.on(PutObjectCommand).callsFake(({ Key, Body, IfNoneMatch }) => {
    if (IfNoneMatch === '*' && objects.has(Key)) throw answered('PreconditionFailed', 412);
    objects.set(Key, Body);
    return {};
  });
  mock.on(ListObjectsV2Command).callsFake(({ Prefix, StartAfter = '', ContinuationToken }) => {
    const after = ContinuationToken ?? StartAfter;
    const keys = [...objects.keys()].filter((key) => key.startsWith(Prefix) && key > after).toSorted();
    return {
      Contents: keys.slice(0, 3).map((Key) => ({ Key })),
      ...(keys.length > 3 && { NextContinuationToken: keys[2] }),
    };
  });
  mock.on(GetObjectCommand).callsFake(({ Key }) => ({
    Body: { transformToByteArray: async () => objects.get(Key) },
  }));
  return s3ErasureLog({ client, bucket: 'erasures' });
}

erasureLogConformance(bucket);

describe('a bucket', () => {
  const failing = (...errors: Error[]) => {
    const client = new S3({ region: 'eu-central-1' });
    const mock = mockClient(client);
    let calls = 0;
    mock.on(PutObjectCommand).callsFake(() => {
      const error = errors[Math.min(calls, errors.length - 1)];
      calls += 1;
      throw error ?? new Error('no answer is left');
    });
    return { log: s3ErasureLog({ client, bucket: 'erasures' }), calls: () => calls };
  };

  it('in which another request on the name is under way is asked again', async () => {
    const conflict = answered('ConditionalRequestConflict', 409);
    const { log, calls } = failing(conflict, conflict, answered('PreconditionFailed', 412));
    expect(await log.create('entry/000000000001.json', Buffer.from('{}'))).toBe(false);
    expect(calls()).toBe(3);
  });

  it('that refuses is said, and does not look like a name that is taken', async () => {
    const denied = failing(answered('AccessDenied', 403));
    await expect(denied.log.create('entry/000000000001.json', Buffer.from('{}'))).rejects.toThrow('as S3 says it');
    const conflict = failing(answered('ConditionalRequestConflict', 409));
    await expect(conflict.log.create('entry/000000000001.json', Buffer.from('{}'))).rejects.toThrow('as S3 says it');
    expect(conflict.calls()).toBe(5);
  });
});
