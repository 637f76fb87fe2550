import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { catalogueChanges } from '../../../cli/released/catalogue-changes.ts';
import { changeLines, changesSinceRelease, releaseCatalogue } from '../../../cli/released/release.ts';
import { releasedForm } from '../../../cli/released/released-catalogue.ts';
import { type Catalogue, defineCatalogue, type EventDefinition, upcaster } from '../../../shared/events/index.ts';

const v1 = {
  type: 'object',
  additionalProperties: false,
  required: ['total'],
  properties: { total: { type: 'integer' } },
} as const;
const v2 = {
  type: 'object',
  additionalProperties: false,
  required: ['sum'],
  properties: { sum: { type: 'integer' } },
} as const;
const v3 = {
  type: 'object',
  additionalProperties: false,
  required: ['sums'],
  properties: { sums: { type: 'array' } },
} as const;
const toV2 = upcaster(v1, v2)(({ total }) => ({ sum: total }));
const toV3 = upcaster(v2, v3)(({ sum }) => ({ sums: [sum] }));

const PERSON = { kind: 'customer', id: '/total' } as const;
const made: EventDefinition = {
  aggregate: 'thing',
  sensitive: { class: 'contact', subject: PERSON },
  versions: { 1: v1, 2: v2 },
  upcast: { 1: toV2 },
  whenParked: 'block',
  destinations: ['ledger', 'bus'],
};
const base: Catalogue = defineCatalogue({
  source: '/tests',
  destinations: { ledger: { kind: 'sqs-fifo', groupId: 'aggregate-id' }, bus: { kind: 'eventbridge' } },
  events: { 'thing.made': made, 'thing.gone': { ...made, destinations: ['ledger'] } },
});
/** What `defineCatalogue` would refuse by itself may be among them: here only the comparison is asked. */
const withMade = (change: Partial<EventDefinition>): Catalogue => ({
  ...base,
  events: { ...base.events, 'thing.made': { ...made, ...change } },
});
const withDestinations = (destinations: Catalogue['destinations']): Catalogue => ({ ...base, destinations });

/** What changed, the breaking ones with their remedy. */
const changesOf = (is: Catalogue): string[] =>
  catalogueChanges(releasedForm(base), releasedForm(is)).map(({ breaking, text, remedy }) =>
    breaking ? `${text} | ${remedy}` : `ok: ${text}`,
  );

describe('changes of a catalogue', () => {
  it.each<[string, Catalogue, string[]]>([
    ['nothing', base, []],
    ['the policy behind a parked event', withMade({ whenParked: 'skip' }), []],
    ['another order of what it says of its marks', withMade({ sensitive: { subject: PERSON, class: 'contact' } }), []],
    ['the order of routes', withMade({ destinations: ['bus', 'ledger'] }), []],
    [
      'a new type',
      defineCatalogue({ ...base, events: { ...base.events, 'thing.new': made } }),
      ['ok: thing.new is new'],
    ],
    [
      'a new version with an upcaster',
      withMade({ versions: { 1: v1, 2: v2, 3: v3 }, upcast: { 1: toV2, 2: toV3 } }),
      ['ok: thing.made version 3 is new'],
    ],
    [
      'a new destination and a route to it',
      defineCatalogue({
        ...base,
        destinations: { ...base.destinations, mail: { kind: 'sqs' } },
        events: { ...base.events, 'thing.gone': { ...made, destinations: ['ledger', 'mail'] } },
      }),
      ['ok: destination mail is new', 'ok: thing.gone also goes to mail'],
    ],
    [
      'an optional field',
      withMade({
        versions: { 1: v1, 2: { ...v2, properties: { ...v2.properties, note: { type: 'string' } } } },
        upcast: {},
      }),
      [
        'ok: thing.made version 2, /properties/note: an optional field was added',
        expect.stringContaining('thing.made: the upcaster from version 1 to 2 was removed') as string,
      ],
    ],
  ])('%s', (_, is, expected) => {
    expect(changesOf(is)).toEqual(expected);
  });

  it.each<[string, Catalogue, RegExp]>([
    ['another source', { ...base, source: '/other' }, /^source changed from \/tests to \/other: .* \| Set it back/],
    [
      'a type that is gone',
      { ...base, events: { 'thing.made': made } },
      /^thing\.gone was removed: its events are stored and queued \| Put thing\.gone back/,
    ],
    [
      'a version that is gone',
      withMade({ versions: { 1: v1 }, upcast: {} }),
      /^thing\.made version 2 was removed: .* \| Put it back/,
    ],
    [
      'an upcaster that is gone',
      withMade({ upcast: {} }),
      /^thing\.made: the upcaster from version 1 to 2 was removed: .* \| Put it back/,
    ],
    [
      'a new version without an upcaster',
      withMade({ versions: { 1: v1, 2: v2, 3: v3 }, upcast: {} }),
      /^thing\.made version 3 has no upcaster from version 2: .* \| Add upcast: \{ 2: upcaster\(…\) \} to thing\.made/,
    ],
    [
      'another aggregate type',
      withMade({ aggregate: 'other' }),
      /^thing\.made: aggregate changed from thing to other: .* \| .*a new type/,
    ],
    [
      'another class for what it marks',
      withMade({ sensitive: { class: 'tax', subject: PERSON } }),
      /^thing\.made: sensitive changed from \{"class":"contact",.*\} to \{"class":"tax",.*: .*the other class.* \| Set it back, and name class and subject/,
    ],
    [
      'another person for what it marks',
      withMade({ sensitive: { class: 'contact', subject: { ...PERSON, kind: 'user' } } }),
      /^thing\.made: sensitive changed from /,
    ],
    [
      'no class for what it marks',
      withMade({ sensitive: undefined as never }),
      /^thing\.made: sensitive changed from .* to null/,
    ],
    [
      'a route that is gone',
      withMade({ destinations: ['ledger'] }),
      /^thing\.made no longer goes to bus: .* \| Put bus back/,
    ],
    [
      'a destination that is gone',
      withDestinations({ ledger: { kind: 'sqs-fifo', groupId: 'aggregate-id' } }),
      /^destination bus was removed: .* \| Take its routes away first/,
    ],
    [
      'another kind of destination',
      withDestinations({ ...base.destinations, bus: { kind: 'sqs' } }),
      /^destination bus: kind changed from eventbridge to sqs: .* \| .*a new destination/,
    ],
    [
      'other groups',
      withDestinations({ ...base.destinations, ledger: { kind: 'sqs-fifo', groupId: 'aggregate-type-and-id' } }),
      /^destination ledger: groupId changed from aggregate-id to aggregate-type-and-id: .* \| Set it back/,
    ],
    [
      'a schema of the newest version',
      withMade({ versions: { 1: v1, 2: { ...v2, required: [] } }, upcast: {} }),
      /^thing\.made version 2, \/required: "sum" is no longer required: .* \| Leave version 2 as it was released, and add version 3 with an upcaster from 2\./,
    ],
    [
      'a schema of an older version',
      withMade({ versions: { 1: { ...v1, required: [] }, 2: v2 }, upcast: {} }),
      /^thing\.made version 1, \/required: "total" is no longer required: .* \| Leave version 1 as it was released\.$/,
    ],
  ])('refuses %s and says what to do', (_, is, expected) => {
    expect(changesOf(is)).toContainEqual(expect.stringMatching(expected));
  });
});

describe('a release', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'released-'));
  });
  afterAll(() => rm(directory, { recursive: true }));

  const broken = withMade({ destinations: ['ledger'] });
  const grown = defineCatalogue({ ...base, events: { ...base.events, 'thing.new': made } });

  it('is written once, and again only when something that others rely on changed', async () => {
    const file = join(directory, 'first.json');
    expect(changesSinceRelease(base, file)).toEqual([]);
    expect(releaseCatalogue(base, file)).toEqual({ outcome: 'written', changes: [] });
    const first = await readFile(file, 'utf8');
    expect(releaseCatalogue(withMade({ whenParked: 'skip' }), file).outcome).toBe('unchanged');
    expect(await readFile(file, 'utf8')).toBe(first);

    expect(changesSinceRelease(grown, file)).toHaveLength(1);
    expect(releaseCatalogue(grown, file).outcome).toBe('written');
    expect(changesSinceRelease(grown, file)).toEqual([]);
  });

  it('of a breaking change is refused and nothing is written', async () => {
    const file = join(directory, 'refused.json');
    releaseCatalogue(base, file);
    const before = await readFile(file, 'utf8');
    for (const reason of [undefined, '', '  ']) {
      const { outcome, changes } = releaseCatalogue(broken, file, reason);
      expect(outcome).toBe('refused');
      expect(changeLines(changes)).toMatch(/^breaking: thing\.made no longer goes to bus: .*\n {4}Put bus back/);
    }
    expect(await readFile(file, 'utf8')).toBe(before);
  });

  it('of a breaking change needs a reason, which is kept from then on', async () => {
    const file = join(directory, 'excepted.json');
    releaseCatalogue(base, file);
    expect(releaseCatalogue(broken, file, 'nobody reads it there').outcome).toBe('written');
    expect(changesSinceRelease(broken, file)).toEqual([]);
    expect(releaseCatalogue(base, file).outcome).toBe('written');
    const { exceptions } = JSON.parse(await readFile(file, 'utf8')) as { exceptions: unknown };
    const text = expect.stringContaining('thing.made no longer goes to bus') as string;
    expect(exceptions).toEqual([{ reason: 'nobody reads it there', changes: [text] }]);
  });

  it.each(['', 'null', '[]', '{"source": 1}', '{"source": "/a", "destinations": {}, "events": []}'])(
    'does not take %j for what was released',
    async (text) => {
      const file = join(directory, 'damaged.json');
      await writeFile(file, text);
      expect(() => releaseCatalogue(base, file, 'why not')).toThrow(
        expect.objectContaining({ code: 'CATALOGUE_RELEASED' }) as Error,
      );
      expect(await readFile(file, 'utf8')).toBe(text);
    },
  );
});
