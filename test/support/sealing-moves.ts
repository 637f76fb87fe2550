import {
  type EventPlace,
  openData,
  type OpeningKeys,
  openValue,
  parseSealed,
  type RowContext,
  Sealed,
  sealData,
  SealingError,
  sealingPlan,
  sealValue,
  type SubjectKey,
} from '../../shared/sealing/index.ts';
import { seeded } from '../chaos/random.ts';
import { testKey } from './sealing.ts';

const text = { type: 'string' };
const plan = sealingPlan(
  {
    type: 'object',
    additionalProperties: false,
    required: ['customerId', 'lines'],
    properties: {
      customerId: text,
      name: { ...text, 'x-gdpr-sensitive': true },
      alias: { ...text, 'x-gdpr-sensitive': true },
      taxId: { ...text, 'x-gdpr-sensitive': { class: 'tax' } },
      lines: {
        type: 'array',
        items: {
          type: 'object',
          additionalProperties: false,
          required: ['personId'],
          properties: {
            personId: text,
            note: { ...text, 'x-gdpr-sensitive': { subject: { kind: 'person', id: '1/personId' } } },
          },
        },
      },
    },
  },
  { class: 'contact', subject: { kind: 'customer', id: '/customerId' } },
)!;

interface Data {
  customerId: string;
  name: string;
  alias: string;
  taxId: string;
  lines: { personId: string; note: string }[];
}

/** Where a sealed text stands, and how whoever reads that place opens what it finds there. */
interface Slot {
  readonly where: string;
  readonly text: string;
  open(found: string, keys: OpeningKeys): unknown;
}

/** Two events of two types, aggregates and versions of keys each, and two tables: all with the same values. */
function slots(random: (bytes: number) => Buffer): {
  readonly slots: readonly Slot[];
  readonly keys: ReadonlyMap<string, SubjectKey>;
} {
  const keys = new Map<string, SubjectKey>();
  const all: Slot[] = [];
  const keyOf = (className: string, person: string, version: number): SubjectKey => {
    const key = testKey(`${className} ${person}`, { class: className, version });
    keys.set(`${key.class} ${key.keyId} ${version}`, key);
    return key;
  };
  let events = 0;
  for (const eventType of ['invoice.issued', 'invoice.paid']) {
    for (const aggregateId of ['A-1', 'A-2']) {
      for (const version of [1, 2]) {
        const eventId = `01890a5d-ac96-774b-bcce-${String((events += 1)).padStart(12, '0')}`;
        const place: EventPlace = { in: 'event', eventType, aggregateType: 'invoice', aggregateId, eventId };
        const note = 'canary';
        const clear: Data = {
          customerId: 'C-1',
          name: note,
          alias: note,
          taxId: note,
          lines: [
            { personId: 'P-1', note },
            { personId: 'P-1', note },
            { personId: 'P-2', note },
          ],
        };
        const wire = sealData(clear, plan, (className, { id }) => keyOf(className, id, version), place, random) as Data;
        const slot = (
          where: string,
          found: string,
          put: (data: Data, text: string) => void,
          get: (data: Data) => unknown,
        ): void => {
          all.push({
            where: `${eventType} ${aggregateId} ${eventId} ${where}`,
            text: found,
            open(moved, opening) {
              const data = structuredClone(wire);
              put(data, moved);
              return get(openData(data, plan, opening, place) as Data);
            },
          });
        };
        for (const name of ['name', 'alias', 'taxId'] as const) {
          slot(
            name,
            wire[name],
            (data, moved) => (data[name] = moved),
            (data) => data[name],
          );
        }
        for (const [index, line] of wire.lines.entries()) {
          slot(
            `lines/${index}`,
            line.note,
            (data, moved) => (data.lines[index]!.note = moved),
            (data) => data.lines[index]?.note,
          );
        }
      }
    }
  }
  for (const table of ['invoice', 'customer']) {
    for (const primaryKey of ['1', '2']) {
      for (const column of ['name', 'note']) {
        const context: RowContext = { in: 'row', store: 'test', table, primaryKey, column };
        const key = keyOf('contact', 'C-1', 1);
        all.push({
          where: `${table} ${primaryKey} ${column}`,
          text: sealValue('canary', key, context, random),
          open(moved, opening) {
            const name = parseSealed(moved)?.key;
            const found = name && opening(name);
            return typeof found === 'object' ? openValue(moved, found, context) : null;
          },
        });
      }
    }
  }
  return { slots: all, keys };
}

/**
 * Moves sealed texts, as they are, to places of other ones: other fields, items, events, rows, aggregates, classes and key versions. Each is opened by a
 * reader that has every key, or lacks one class, or to whom one class was erased.
 *
 * @throws Error that names the seed's step when a moved text opens, or fails in a way that is not a `SealingError`
 */
export function runMoves(seed: number, count: number): Readonly<Record<string, number>> {
  const random = seeded(seed, 'moves');
  const below = (n: number): number => Math.floor(random() * n);
  const { slots: all, keys } = slots((bytes) => Buffer.from(Array.from({ length: bytes }, () => below(256))));
  const whole: OpeningKeys = (name) => keys.get(`${name.class} ${name.keyId} ${name.version}`);
  const readers: readonly OpeningKeys[] = [
    whole,
    (name) => (name.class === 'tax' ? 'denied' : whole(name)),
    (name) => (name.class === 'contact' ? 'erased' : whole(name)),
    () => undefined,
  ];
  for (const slot of all) {
    if (slot.open(slot.text, whole) !== 'canary') throw new Error(`${slot.where} does not open where it belongs`);
  }
  const outcomes: Record<string, number> = {};
  for (let step = 0; step < count; step += 1) {
    const from = all[below(all.length)]!;
    const to = all[below(all.length)]!;
    const reader = readers[below(8)] ?? whole;
    const outcome = from === to ? 'unmoved' : outcomeOf(() => to.open(from.text, reader));
    if (outcome === 'opened') throw new Error(`seed ${seed}, step ${step}: ${from.where} opened as ${to.where}`);
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  }
  return outcomes;
}

function outcomeOf(open: () => unknown): string {
  try {
    const opened = open();
    return opened === null || opened instanceof Sealed ? 'closed' : 'opened';
  } catch (error) {
    if (error instanceof SealingError) return error.code;
    throw error;
  }
}
