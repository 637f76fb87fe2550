import { isKeyName, type KeyName, keyNameOf, keyNameText } from '../sealed-text.ts';
import { ErasureError } from './errors.ts';
import type { ErasureLog } from './log.ts';

/** A key that is kept from readers, and destroyed later. */
export interface RestrictedKey extends KeyName {
  /** RFC 3339. */
  readonly until: string;
}

/** What the log says of one erasure: which keys, and an HMAC of the person. */
export interface ErasureEntry {
  /** 32 bytes. */
  readonly subjectHmac: Buffer;
  readonly erased: readonly KeyName[];
  readonly restricted: readonly RestrictedKey[];
}

export interface NumberedEntry extends ErasureEntry {
  /** From 1, without gaps. */
  readonly number: number;
}

const PREFIX = 'entry/';
const NAME = /^entry\/(\d{12})\.json$/;
const FORMAT = 1;
/** Entries that are read at once. */
const AT_ONCE = 20;

/**
 * Writes an entry under the next number. Of those that write at once each gets a number of its own.
 *
 * @param through a number that the log is known to have reached, 0 for none
 * @throws ErasureError `ERASURE_LOG_DAMAGED`: the log does not reach `through`, or has a gap after it; the log's own errors
 */
export async function appendEntry(log: ErasureLog, through: number, entry: ErasureEntry): Promise<number> {
  let number = through;
  for await (const found of numbersAfter(log, through)) number = found;
  const content = encode(entry);
  do number += 1;
  while (!(await log.create(nameOf(number), content)));
  return number;
}

/**
 * The entries after a number, ascending.
 *
 * @throws ErasureError `ERASURE_LOG_DAMAGED`: an entry that cannot be read, a gap, or a log that does not reach `through`; the log's own errors
 */
export async function* entriesAfter(log: ErasureLog, through: number): AsyncGenerator<NumberedEntry> {
  const read = async (number: number): Promise<NumberedEntry> => ({
    number,
    ...decode(await log.read(nameOf(number)), number),
  });
  let numbers: number[] = [];
  for await (const number of numbersAfter(log, through)) {
    numbers.push(number);
    if (numbers.length < AT_ONCE) continue;
    yield* await Promise.all(numbers.map(read));
    numbers = [];
  }
  yield* await Promise.all(numbers.map(read));
}

/** Begins one before, so that a log which is another one, or lost its end, is noticed. */
async function* numbersAfter(log: ErasureLog, through: number): AsyncGenerator<number> {
  let last = Math.max(through - 1, 0);
  for await (const name of log.list(PREFIX, last === 0 ? '' : nameOf(last))) {
    const number = Number(NAME.exec(name)?.[1]);
    if (number !== last + 1) throw damaged(`entry ${last + 1} is missing`);
    last = number;
    if (number > through) yield number;
  }
  if (last < through) throw damaged(`entry ${through} is missing, which the database has done`);
}

function nameOf(number: number): string {
  return `${PREFIX}${String(number).padStart(12, '0')}.json`;
}

function encode({ subjectHmac, erased, restricted }: ErasureEntry): Buffer {
  return Buffer.from(
    JSON.stringify({
      format: FORMAT,
      subject: subjectHmac.toString('base64url'),
      erased: erased.map(keyNameText),
      restricted: restricted.map((key) => ({ key: keyNameText(key), until: key.until })),
    }),
  );
}

function decode(content: Uint8Array, number: number): ErasureEntry {
  const entry = parse(content);
  const subjectHmac = Buffer.from(typeof entry?.subject === 'string' ? entry.subject : '', 'base64url');
  const { erased, restricted } = entry ?? {};
  if (entry?.format !== FORMAT || subjectHmac.length !== 32 || !Array.isArray(erased) || !Array.isArray(restricted)) {
    throw damaged(`entry ${number} is none of format ${FORMAT}`);
  }
  const isSound =
    erased.every(isKeyName) &&
    restricted.every((it) => isKeyName(it?.key) && typeof it.until === 'string' && !Number.isNaN(Date.parse(it.until)));
  if (!isSound) throw damaged(`entry ${number} holds what is no key`);
  return {
    subjectHmac,
    erased: erased.map(keyNameOf),
    restricted: restricted.map(({ key, until }) => ({ ...keyNameOf(key), until })),
  };
}

interface EntryText {
  readonly format: unknown;
  readonly subject: unknown;
  readonly erased: unknown[];
  readonly restricted: { readonly key: string; readonly until: string }[];
}

function parse(content: Uint8Array): Partial<EntryText> | null {
  try {
    return JSON.parse(Buffer.from(content).toString('utf8')) as Partial<EntryText> | null;
  } catch {
    return null;
  }
}

function damaged(reason: string): ErasureError {
  return new ErasureError(
    'ERASURE_LOG_DAMAGED',
    `The log of erasures cannot be relied on: ${reason}. Nothing was written to it. Check that it is the one of this database (docs/runbooks/erasure.md).`,
  );
}
