/**
 * The archive of events that leave the outbox. `archive.ts` is the port, `folder-archive.ts` and `s3-archive.ts` are behind it; `archived-event.ts` is
 * a line of a file, `write.ts` makes files of a day's events, `read.ts` gives them back. The guide is docs/retention.md.
 */
export type { Archive } from './archive.ts';
export { ArchiveDamagedError, type ArchivedDelivery, type ArchivedEvent } from './archived-event.ts';
export { folderArchive } from './folder-archive.ts';
export { type ArchiveSelection, type ArchiveTurn, readArchive } from './read.ts';
export { s3Archive } from './s3-archive.ts';
export { archiveEvents, type ArchivedBatch } from './write.ts';
