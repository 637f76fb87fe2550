import type { S3 } from '@aws-sdk/client-s3';
import type { ErasureLog } from './log.ts';

export interface S3ErasureLogOptions {
  /** With time limits of its own: readers wait for it when they start. */
  readonly client: Pick<S3, 'putObject' | 'listObjectsV2' | 'getObject'>;
  readonly bucket: string;
}

/** S3 answers so while another request on the same name is under way. */
const CONFLICT = 409;
const EXISTS = 412;
const MOST_TRIES = 5;

/**
 * A log in an S3 bucket that holds nothing else. `If-None-Match: *` makes S3 refuse a name that is taken; every list that begins after a put has ended
 * shows it. The bucket's policy should refuse deletion, and any put without that header (docs/erasure.md).
 */
export function s3ErasureLog({ client, bucket: Bucket }: S3ErasureLogOptions): ErasureLog {
  return {
    async create(name, content) {
      for (let tries = 1; ; tries += 1) {
        try {
          await client.putObject({
            Bucket,
            Key: name,
            Body: content,
            IfNoneMatch: '*',
            ContentType: 'application/json',
          });
          return true;
        } catch (error) {
          const status = (error as { readonly $metadata?: { readonly httpStatusCode?: number } }).$metadata
            ?.httpStatusCode;
          if (status === EXISTS) return false;
          if (status !== CONFLICT || tries === MOST_TRIES) throw error;
        }
      }
    },
    async *list(prefix, after) {
      let token: string | undefined;
      do {
        const page = await client.listObjectsV2({
          Bucket,
          Prefix: prefix,
          // S3 looks at one of them.
          ...(token === undefined ? after !== '' && { StartAfter: after } : { ContinuationToken: token }),
        });
        for (const { Key } of page.Contents ?? []) if (Key !== undefined) yield Key;
        token = page.NextContinuationToken;
      } while (token !== undefined);
    },
    async read(name) {
      const { Body } = await client.getObject({ Bucket, Key: name });
      if (Body === undefined) throw new Error('S3 answered without a body.');
      return Body.transformToByteArray();
    },
  };
}
