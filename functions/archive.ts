import { S3Client } from '@aws-sdk/client-s3';
import { type Archive, folderArchive, s3Archive } from '../shared/archive/index.ts';

export type ArchiveAddress =
  | { readonly kind: 's3'; readonly bucket: string }
  | { readonly kind: 'folder'; readonly path: string };

/** `s3://bucket` or `file:///folder`. @returns undefined for anything else */
export function placeOf(value: string): ArchiveAddress | undefined {
  const [, bucket] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])\/?$/.exec(value) ?? [];
  if (bucket !== undefined) return { kind: 's3', bucket };
  const [, path] = /^file:\/\/(\/.+)$/.exec(value) ?? [];
  return path === undefined ? undefined : { kind: 'folder', path };
}

/** The archive, and what ends its connections. */
export function openArchive(
  address: ArchiveAddress,
  env: Readonly<Record<string, string | undefined>>,
): { archive: Archive; close(): void } {
  if (address.kind === 'folder') return { archive: folderArchive(address.path), close() {} };
  const client = new S3Client({
    // A put that is repeated writes the same object again.
    maxAttempts: 3,
    requestHandler: { connectionTimeout: 2_000, requestTimeout: 10_000, throwOnRequestTimeout: true },
    // An endpoint of one's own has no host name for each bucket.
    forcePathStyle: env['AWS_ENDPOINT_URL'] !== undefined || env['AWS_ENDPOINT_URL_S3'] !== undefined,
  });
  return { archive: s3Archive({ client, bucket: address.bucket }), close: () => client.destroy() };
}
