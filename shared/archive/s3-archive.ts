import type { S3 } from '@aws-sdk/client-s3';
import type { Archive } from './archive.ts';

export interface S3ArchiveOptions {
  readonly client: Pick<S3, 'putObject' | 'listObjectsV2' | 'getObject'>;
  readonly bucket: string;
}

/**
 * An archive in an S3 bucket. A put that resolves is confirmed: S3 has checked the checksum that the SDK sends along and answers only when the object is
 * stored redundantly; every read and list after that sees it.
 */
export function s3Archive({ client, bucket: Bucket }: S3ArchiveOptions): Archive {
  return {
    async put(name, content) {
      await client.putObject({ Bucket, Key: name, Body: content, ContentType: 'application/gzip' });
    },
    async *list(prefix) {
      let token: string | undefined;
      do {
        const page = await client.listObjectsV2({
          Bucket,
          Prefix: prefix,
          ...(token !== undefined && { ContinuationToken: token }),
        });
        for (const { Key } of page.Contents ?? []) if (Key !== undefined) yield Key;
        token = page.NextContinuationToken;
      } while (token !== undefined);
    },
    async read(name) {
      const { Body } = await client.getObject({ Bucket, Key: name });
      return Body as AsyncIterable<Uint8Array>;
    },
  };
}
