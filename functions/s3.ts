import type { S3ErasureLogOptions } from '../shared/sealing/index.ts';

/** The calls of S3 that archive and the log of erasures make, and what ends its connections. */
export type S3Calls = S3ErasureLogOptions['client'] & { destroy(): void };

/**
 * S3, whose client is loaded when it is first asked, once for all who ask meanwhile: a fifth of a cold start.
 *
 * @param requestTimeout of each try. Milliseconds
 */
export function s3Calls(requestTimeout: number, env: Readonly<Record<string, string | undefined>>): S3Calls {
  let loaded: Promise<S3Calls> | undefined;
  const client = (): Promise<S3Calls> =>
    (loaded ??= import('./s3-client.ts').then(({ s3Client }) => s3Client(requestTimeout, env)));
  return {
    putObject: async (input) => (await client()).putObject(input),
    listObjectsV2: async (input) => (await client()).listObjectsV2(input),
    getObject: async (input) => (await client()).getObject(input),
    // Whoever asked has been told if it could not be loaded.
    destroy: () => void loaded?.then((opened) => opened.destroy()).catch(() => {}),
  };
}
