import {
  type EventContext,
  type KeyName,
  openValue,
  parseSealed,
  type RowContext,
  SealingError,
  type SealingContext,
  sealValue,
} from '../../shared/sealing/index.ts';
import { seeded } from '../chaos/random.ts';
import { EVENT, ROW, testKey } from './sealing.ts';

/** Values of which no byte may come out of a mutation. */
const VALUES: readonly unknown[] = ['Ada Lovelace', '', 'x'.repeat(200), 42, true, { street: 'Rue 1' }, [1, 2, 3]];
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \n\u0000é'.split('');
const KEYS = [testKey('one'), testKey('two'), testKey('one', { version: 2 }), testKey('three', { class: 'tax' })];

/** Where the values come from whose parts are mixed in. */
const ELSEWHERE: SealingContext = { ...EVENT, pointer: '/elsewhere' };

interface Attack {
  readonly text: string;
  readonly context: SealingContext;
}

export interface MutationCounts {
  readonly refused: Readonly<Record<string, number>>;
  /** Mutations that were none: the same text at the same place. */
  readonly unchanged: number;
}

/**
 * Changes sealed values and their places at random and tries to open them with every key there is.
 *
 * @throws Error that names the seed's step when something opens, or fails in a way that is not a `SealingError`.
 */
export function runMutations(seed: number, count: number): MutationCounts {
  const random = seeded(seed, 'mutations');
  const below = (n: number): number => Math.floor(random() * n);
  const some = <T>(list: readonly T[]): T => list[below(list.length)] as T;
  const bytes = (n: number): Buffer => Buffer.from(Array.from({ length: n }, () => below(256)));
  const refused: Record<string, number> = {};
  let unchanged = 0;
  for (let step = 0; step < count; step += 1) {
    const context: SealingContext = some([EVENT, ROW]);
    const key = some(KEYS);
    const text = sealValue(some(VALUES), key, context, bytes);
    const attack = mutate({ text, context }, sealValue(some(VALUES), some(KEYS), ELSEWHERE, bytes), below, some);
    if (attack.text === text && isSame(attack.context, context)) {
      unchanged += 1;
      continue;
    }
    const code = outcome(attack);
    if (code === null) throw new Error(`seed ${seed}, step ${step}: a changed value opened`);
    refused[code] = (refused[code] ?? 0) + 1;
  }
  return { refused, unchanged };
}

/** Null if it opened. */
function outcome({ text, context }: Attack): string | null {
  try {
    const parts = parseSealed(text);
    if (parts === null) return 'not sealed';
    const key = KEYS.find((it) => isSameKey(it, parts.key));
    if (key === undefined) return 'SEALING_KEY_UNKNOWN';
    openValue(text, key, context);
    return null;
  } catch (error) {
    if (error instanceof SealingError) return error.code;
    throw error;
  }
}

function isSameKey(one: KeyName, other: KeyName): boolean {
  return one.class === other.class && one.keyId === other.keyId && one.version === other.version;
}

function isSame(one: SealingContext, other: SealingContext): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

type Below = (n: number) => number;
type Some = <T>(list: readonly T[]) => T;

function mutate({ text, context }: Attack, other: string, below: Below, some: Some): Attack {
  const at = below(text.length);
  switch (some(['flip', 'cut', 'extend', 'swap', 'splice', 'double', 'move', 'header', 'insert', 'bit'])) {
    case 'flip':
      return { text: text.slice(0, at) + some(ALPHABET) + text.slice(at + 1), context };
    case 'cut':
      return { text: below(2) === 0 ? text.slice(0, at) : text.slice(at), context };
    case 'extend':
      return { text: text + some(ALPHABET).repeat(1 + below(70)), context };
    case 'swap': {
      const to = below(text.length);
      const characters = text.split('');
      [characters[at], characters[to]] = [characters[to] as string, characters[at] as string];
      return { text: characters.join(''), context };
    }
    case 'splice':
      return { text: text.slice(0, at) + other.slice(below(other.length)), context };
    case 'double':
      return { text: text + text, context };
    case 'move':
      return { text, context: move(context, some) };
    case 'header':
      return { text: header(text, other, below), context };
    case 'insert':
      return { text: text.slice(0, at) + some(ALPHABET) + text.slice(at), context };
    default:
      return { text: flipBit(text, below), context };
  }
}

/** A bit of salt, ciphertext or tag, written canonically. */
function flipBit(text: string, below: Below): string {
  const dot = text.lastIndexOf('.');
  const body = Buffer.from(text.slice(dot + 1), 'base64url');
  const at = below(body.length);
  body[at] = (body[at] as number) ^ (1 << below(8));
  return `${text.slice(0, dot + 1)}${body.toString('base64url')}`;
}

/** A part of the header, or the body, from another value. */
function header(text: string, other: string, below: Below): string {
  const part = 2 + below(4);
  const theirs = other.split('.');
  return text
    .split('.')
    .map((it, index) => (index === part ? (theirs[index] ?? '') : it))
    .join('.');
}

const EVENT_FIELDS = ['eventType', 'aggregateType', 'aggregateId', 'eventId', 'pointer'] as const;
const ROW_FIELDS = ['store', 'table', 'primaryKey', 'column'] as const;

function move(context: SealingContext, some: Some): SealingContext {
  if (some([true, false, false])) return context.in === 'event' ? ROW : EVENT;
  if (context.in === 'row') return { ...context, [some(ROW_FIELDS)]: 'elsewhere' } satisfies RowContext;
  const field = some(EVENT_FIELDS);
  const value =
    field === 'eventId' ? '01890a5d-ac96-774b-bcce-b302099a8058' : some(['/customer/names', '/lines/0', '']);
  return { ...context, [field]: value } satisfies EventContext;
}
