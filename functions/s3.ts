import type { S3ErasureLogOptions } from '../shared/sealing/index.ts';
import { openedOnce } from './opened-once.ts';

/** The calls of S3 that archive and the log of erasures make, and what ends its connections. */
export type S3Calls = S3ErasureLogOptions['client'] & { destroy(): void };

/**
 * S3, whose client is loaded when it is first asked, once for all who ask meanwhile: a fifth of a cold start.
 *
 * @param requestTimeout of each try. Milliseconds
 */
export function s3Calls(requestTimeout: number, env: Readonly<Record<string, string | undefined>>): S3Calls {
  let opened: S3Calls | undefined;
  const client = openedOnce(async () => (opened = (await import('./s3-client.ts')).s3Client(requestTimeout, env)));
  return {
    putObject: async (input) => (await client()).putObject(input),
    listObjectsV2: async (input) => (await client()).listObjectsV2(input),
    getObject: async (input) => (await client()).getObject(input),
    destroy: () => opened?.destroy(),
  };
}
