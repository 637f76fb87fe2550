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
