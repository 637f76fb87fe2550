import { type Archive, folderArchive, s3Archive } from '../shared/archive/index.ts';
import type { ArchiveAddress } from './archive-address.ts';
import { s3Calls } from './s3.ts';

/** The archive, and what ends its connections. */
export function openArchive(
  address: ArchiveAddress,
  env: Readonly<Record<string, string | undefined>>,
): { archive: Archive; close(): void } {
  if (address.kind === 'folder') return { archive: folderArchive(address.path), close() {} };
  const client = s3Calls(10_000, env);
  return { archive: s3Archive({ client, bucket: address.bucket }), close: () => client.destroy() };
}
