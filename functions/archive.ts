import { type Archive, folderArchive, s3Archive } from '../shared/archive/index.ts';
import type { ArchiveAddress } from './archive-address.ts';
import { s3Calls } from './s3.ts';

/** The archive, and what ends its connections. */
export function openArchive(
  address: ArchiveAddress,
  env: Readonly<Record<string, string | undefined>>,
): { archive: Archive; close(): void } {
  if (address.kind === 'folder') return { archive: folderArchive(address.path), close() {} };
  const client = s3Calls({
    // A put that is repeated writes the same object again.
    maxAttempts: 3,
    requestHandler: { connectionTimeout: 2_000, requestTimeout: 10_000, throwOnRequestTimeout: true },
    // An endpoint of one's own has no host name for each bucket.
    forcePathStyle: env['AWS_ENDPOINT_URL'] !== undefined || env['AWS_ENDPOINT_URL_S3'] !== undefined,
  });
  return { archive: s3Archive({ client, bucket: address.bucket }), close: () => client.destroy() };
}
