export {
  type Catalogue,
  defineCatalogue,
  type Destination,
  type EventData,
  type EventDefinition,
  type EventType,
  type GroupId,
  maxBytes,
  newestVersion,
  type NewestVersion,
  type WhenParked,
} from './catalogue.ts';
export { CatalogueError, type CatalogueErrorCode } from './catalogue-error.ts';
export { catalogueRows, type CatalogueRows } from './catalogue-rows.ts';
export {
  type CompiledCatalogue,
  compiledCatalogue,
  catalogueSchemas,
  type GeneratedValidators,
  schemasFingerprint,
  type SealedVersion,
  validatorKey,
  writerValidator,
} from './compiled-catalogue.ts';
export {
  checkConsumer,
  type ConsumerDeclaration,
  ConsumerOptionsError,
  declareConsumer,
  type DeclaredOrder,
  DEFAULT_WINDOW_DAYS,
  type Mode,
  type StartingPoint,
} from './consumer-declaration.ts';
export { buildEnvelope, type EnvelopeRow, type EventMetadata } from './envelope.ts';
export {
  isAggregateIdLength,
  isConsumerName,
  isStorableText,
  isTypeName,
  MAX_AGGREGATE_ID_CHARACTERS,
  RESERVED_TYPE_PREFIX,
  schemaName,
} from './names.ts';
export { type EnvelopeFault, type ParsedEnvelope, parseEnvelope, type ReceivedEvent } from './parse-envelope.ts';
export type { DataOf, EventSchema } from './schema.ts';
export { type Upcast, upcastData, type UpcastFault } from './upcast.ts';
export { type Older, type Upcaster, upcaster } from './upcaster.ts';
export { pointerToPath, type SchemaFault, type Validate, type Violation, violations } from './violation.ts';
