/**
 * Sealing: values that only their readers can open, each in its one place.
 *
 * 1. `sealValue` and `openValue` are the format: one value, one key, one place (docs/sealing-format.md).
 * 2. `sealingPlan` finds what a JSON Schema marks with `x-gdpr-sensitive`; `wireSchema` is the schema of what is stored and sent.
 * 3. `sealData` and `openData` go through an event's data by its plan. The keys are loaded before: `possibleKeys` and `sealedWith` name them.
 * 4. `createKeyring` loads keys, creates those that are missing, and keeps them for minutes: from a `Vault` of wrapped keys and a `Kms`.
 * 5. `runRotation` replaces keys that wrap others, in the background, and opens a canary of each class every day; no sealed value is rewritten.
 * 6. `createErasure` takes keys away for good, and writes down outside the database that it did (`erasure/`).
 * 7. `blindIndex` declares an index over sealed values, `createIndexKeys` loads its keys: so that rows are found by a value that stays sealed.
 *    `runIndexes` replaces them in the background.
 */
export type { EventContext, EventPlace, RowContext, SealingContext } from './associated-data.ts';
export {
  backfillIndex,
  type Backfilled,
  type BackfillOptions,
  hasOlderValues,
  type IndexedColumn,
} from './blind-index/backfill.ts';
export type { BlindIndexes } from './blind-index/blind-indexes.ts';
export { type BlindIndex, blindIndex, type BlindIndexOptions } from './blind-index/blind-value.ts';
export { type DeclaredIndex, declaredIndexes, type IndexOverColumns } from './blind-index/declared-indexes.ts';
export { createIndexKeys, type IndexKeys, type IndexKeysOptions } from './blind-index/index-keys.ts';
export type { IndexKeyRow, IndexKeyState, IndexVault, IndexVaultAnswer } from './blind-index/index-vault.ts';
export { email, type Normaliser, personName, phone, taxId } from './blind-index/normalise.ts';
export { postgresIndexVault } from './blind-index/postgres-index-vault.ts';
export { type IndexRotationOptions, type IndexRotationStep, rotateIndexKey } from './blind-index/rotate-index-key.ts';
export { type IndexRunOptions, type IndexRunReport, runIndexes } from './blind-index/run-indexes.ts';
export type { Random } from './cipher.ts';
export {
  KeysNotPreparedError,
  SealedValueUsedError,
  SealingError,
  type SealingErrorCode,
  SealingRefusedError,
} from './errors.ts';
export { type SealingAnswer, sealingAnswer } from './http-answer.ts';
export { type Classes, type ErasableClass, defineClasses } from './erasure/classes.ts';
export { clearColumns, defineErasable, type ErasableColumns } from './erasure/columns.ts';
export {
  type ClassState,
  createErasure,
  type Erasure,
  type ErasureAnswer,
  type ErasureOptions,
  type EraseRequest,
} from './erasure/erasure.ts';
export { erasureWalk, type ErasureWalkOptions } from './erasure/erasure-walk.ts';
export { ErasureError, type ErasureErrorCode } from './erasure/errors.ts';
export { type ErasureOverview, readErasureOverview } from './erasure/overview.ts';
export { folderErasureLog } from './erasure/folder-log.ts';
export type { ErasureLog } from './erasure/log.ts';
export {
  type Announce,
  erasedPersonsHandler,
  type PersonErased,
  personErased,
  personErasedEvent,
} from './erasure/person-erased.ts';
export { s3ErasureLog, type S3ErasureLogOptions } from './erasure/s3-log.ts';
export type { KeyringClock } from './keyring/age.ts';
export { createKeyring, type Keyring, type KeyringOptions } from './keyring/keyring.ts';
export type { DataKey, Kms, KmsContext, WrappedKey } from './keyring/kms.ts';
export { kmsKeys, type KmsKeysOptions } from './keyring/kms-keys.ts';
export { postgresVault, type PostgresVaultOptions, type VaultPool } from './keyring/postgres-vault.ts';
export type { BranchRow, SubjectRow, Vault, VaultAnswer } from './keyring/vault.ts';
export { isOpenedWhole, maskMarked, openData, type OpeningKeys, sealedWith } from './open-data.ts';
export { isErased, isSealed, Sealed, sealedText } from './sealed.ts';
export { ERASED_TEXT, type KeyName, parseSealed, type SealedParts } from './sealed-text.ts';
export { type NeededKey, neededKeys, possibleKeys, sealData, type SealingKeys } from './seal-data.ts';
export {
  type BranchState,
  type CanaryPorts,
  type CanaryRow,
  type KeyTable,
  type ListedKey,
  listKeys,
  moveBranchKey,
  type PaceOptions,
  postgresRotation,
  renewSubjectKey,
  requestRotation,
  rotateBranchKey,
  type RotationClock,
  type RotationConnection,
  type RotationOptions,
  type RotationPorts,
  type RotationReport,
  type RotationRequests,
  type RotationVault,
  runRotation,
  type SubjectPage,
  takeRotationRequests,
  type WrappedSubject,
} from './rotation/index.ts';
export { type InstalledPlan, installedPlan } from './schema/installed-plan.ts';
export type { PlannedMark, Sensitive, SensitiveMark, SubjectPlace } from './schema/mark.ts';
export type { SealingPlan } from './schema/plan.ts';
export { SealingSchemaError, type SealingSchemaErrorCode } from './schema/schema-error.ts';
export { sealingPlan } from './schema/sealing-plan.ts';
export { wireSchema } from './schema/wire.ts';
export { giveVault, isVaultAccess, type VaultAccess } from './vault-access.ts';
export { type KeyedPlace, openValue, reseal, sealValue, type SubjectKey, subjectKey } from './value.ts';
export { type Subject, unwrapSubjectKey, wrapSubjectKey, type WrappingContext } from './wrapped-key.ts';
