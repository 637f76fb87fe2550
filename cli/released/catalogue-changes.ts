import { canonicalText } from './canonical-schema.ts';
import type { ReleasedCatalogue, ReleasedEvent } from './released-catalogue.ts';
import { schemaChanges } from './schema-changes.ts';

/** A difference between what was released and what is defined now, in a sentence. */
export interface CatalogueChange {
  readonly breaking: boolean;
  /** What changed, and where; in schemas by JSON Pointer. */
  readonly text: string;
  /** What to do instead. Empty where the change is compatible. */
  readonly remedy: string;
}

/** All differences, in the order of the catalogue. None: nothing changed that others rely on. */
export function catalogueChanges(released: ReleasedCatalogue, present: ReleasedCatalogue): CatalogueChange[] {
  return [
    ...sourceChanges(released, present),
    ...destinationChanges(released, present),
    ...Object.entries(released.events).flatMap(([type, before]) => {
      const after = own(present.events, type);
      if (after === undefined) {
        return [
          breaking(
            `${type} was removed: its events are stored and queued`,
            `Put ${type} back, with no destinations if nobody writes it.`,
          ),
        ];
      }
      return [...eventChanges(type, before, after)];
    }),
    ...Object.keys(present.events)
      .filter((type) => !Object.hasOwn(released.events, type))
      .map((type) => compatible(`${type} is new`)),
  ];
}

function* sourceChanges(released: ReleasedCatalogue, present: ReleasedCatalogue): Generator<CatalogueChange> {
  if (released.source === present.source) return;
  yield breaking(
    `source changed from ${released.source} to ${present.source}: consumers know no event of the other source`,
    `Set it back to ${released.source}.`,
  );
}

function* destinationChanges(released: ReleasedCatalogue, present: ReleasedCatalogue): Generator<CatalogueChange> {
  for (const [name, before] of Object.entries(released.destinations)) {
    const after = own(present.destinations, name);
    if (after === undefined) {
      yield breaking(
        `destination ${name} was removed: what still waits for it can never be sent`,
        `Take its routes away first; remove it when nothing of it is pending, parked or blocked.`,
      );
      continue;
    }
    for (const key of ['kind', 'groupId'] as const) {
      if (before[key] === after[key]) continue;
      yield breaking(
        `destination ${name}: ${key} changed from ${before[key] ?? 'none'} to ${after[key] ?? 'none'}: messages of both would overtake each other`,
        'Set it back and name a new destination.',
      );
    }
  }
  for (const name of Object.keys(present.destinations)) {
    if (!Object.hasOwn(released.destinations, name)) yield compatible(`destination ${name} is new`);
  }
}

function* eventChanges(type: string, before: ReleasedEvent, after: ReleasedEvent): Generator<CatalogueChange> {
  if (before.aggregate !== after.aggregate) {
    yield breaking(
      `${type}: aggregate changed from ${before.aggregate} to ${after.aggregate}: its events would belong to two histories`,
      'Set it back and define a new type.',
    );
  }
  // Without it in the file, no mark relied on it, or the file is older than this line.
  if (before.sensitive !== undefined && canonicalText(before.sensitive) !== canonicalText(after.sensitive ?? null)) {
    yield breaking(
      `${type}: sensitive changed from ${canonicalText(before.sensitive)} to ${canonicalText(after.sensitive ?? null)}: ` +
        'what is stored is sealed in the other class, or for another person',
      'Set it back, and name class and subject at the marks of a new version.',
    );
  }
  for (const name of before.destinations.filter((it) => !after.destinations.includes(it))) {
    yield breaking(
      `${type} no longer goes to ${name}: its readers would miss events, and strict ones wait for them`,
      `Put ${name} back, or release with a reason once no consumer of ${name} reads ${type}.`,
    );
  }
  for (const name of after.destinations.filter((it) => !before.destinations.includes(it))) {
    yield compatible(`${type} also goes to ${name}`);
  }
  yield* versionChanges(type, before, after);
}

function* versionChanges(type: string, before: ReleasedEvent, after: ReleasedEvent): Generator<CatalogueChange> {
  const newest = Math.max(...[...Object.keys(before.versions), ...Object.keys(after.versions)].map(Number));
  for (const [version, schema] of Object.entries(before.versions)) {
    const now = own(after.versions, version);
    if (now === undefined) {
      yield breaking(`${type} version ${version} was removed: its events are stored and queued`, 'Put it back.');
      continue;
    }
    for (const change of schemaChanges(schema, now)) {
      const text = `${type} version ${version}, ${change.pointer === '' ? 'the schema' : change.pointer}: ${change.text}`;
      if (!change.breaking) yield compatible(text);
      else {
        const next =
          Number(version) === newest ? `, and add version ${newest + 1} with an upcaster from ${newest}` : '';
        yield breaking(text, `Leave version ${version} as it was released${next}.`);
      }
    }
  }
  for (const from of before.upcast.filter((it) => !after.upcast.includes(it))) {
    yield breaking(
      `${type}: the upcaster from version ${from} to ${from + 1} was removed: consumers would return older events`,
      'Put it back, or release with a reason once no such event is queued, kept as a dead letter or replayed.',
    );
  }
  for (const version of Object.keys(after.versions).map(Number)) {
    if (Object.hasOwn(before.versions, version)) continue;
    if (after.upcast.includes(version - 1)) yield compatible(`${type} version ${version} is new`);
    else {
      yield breaking(
        `${type} version ${version} has no upcaster from version ${version - 1}: consumers would return every event that is on its way`,
        `Add upcast: { ${version - 1}: upcaster(…) } to ${type}.`,
      );
    }
  }
}

function breaking(text: string, remedy: string): CatalogueChange {
  return { breaking: true, text, remedy };
}

function compatible(text: string): CatalogueChange {
  return { breaking: false, text, remedy: '' };
}

function own<Value>(record: { readonly [name: string]: Value }, name: string): Value | undefined {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}
