/**
 * For tests of your own code, with any test runner, without AWS and mostly without a database:
 *
 * - `testTransaction` stands in for a transaction, or goes around a real one, and tells which events were appended in it;
 * - `testCatalogue(…).run` runs one handler of a consumer with an event: steps in order, calls of other systems answered by the test;
 * - `testCatalogue(…).batch` and `lambdaContext` are what a whole consumer is invoked with, where a test database is at hand;
 * - `testKeyring` keeps keys of persons in memory: it seals, opens and forgets persons as the real one does.
 */
export { lambdaContext } from './batch.ts';
export type { HandlerRun, RunHandlerOptions } from './run-handler.ts';
export { type CatalogueTests, type GivenEvent, testCatalogue } from './test-catalogue.ts';
export { testKeyring, type TestKeyring } from './test-keyring.ts';
export { type RecordedEvent, type Statement, testTransaction, type TestTransaction } from './test-transaction.ts';
export { TestingError } from './testing-error.ts';
