/** The package's doors, by the name they are imported under: each is one file, and nothing else can be imported. */
export const DOORS: Readonly<Record<string, string>> = {
  'sealed-outbox': 'shared/outbox/index.ts',
  'sealed-outbox/archive': 'shared/archive/index.ts',
  'sealed-outbox/consumer': 'shared/inbox/index.ts',
  'sealed-outbox/database': 'shared/database/index.ts',
  'sealed-outbox/errors': 'shared/errors/index.ts',
  'sealed-outbox/events': 'shared/events/index.ts',
  'sealed-outbox/infra': 'infra/index.ts',
  'sealed-outbox/retention': 'shared/retention/index.ts',
  'sealed-outbox/sealing': 'shared/sealing/index.ts',
  'sealed-outbox/telemetry': 'shared/telemetry/index.ts',
  'sealed-outbox/testing': 'shared/testing/index.ts',
};

/** File name of a door in `esm/` and `cjs/`, without ending. */
export function outputName(door: string): string {
  return door === 'sealed-outbox' ? 'index' : door.replace('sealed-outbox/', '');
}
