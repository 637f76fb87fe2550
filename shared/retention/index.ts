/**
 * How old rows go, whosever they are: `walk.ts` is what can be walked through, `run-janitor.ts` walks, page after page, within a time budget. What
 * may go is decided in the database: `migrations/outbox/0008_retention.sql`, `migrations/inbox/0010_windows.sql`.
 */
export { type JanitorOptions, type JanitorReport, runJanitor, type WalkReport } from './run-janitor.ts';
export { type PrunedPage, type Walk, walkOfFunction } from './walk.ts';
