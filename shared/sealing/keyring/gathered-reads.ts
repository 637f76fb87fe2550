import { isSubject } from '../subject.ts';
import { type NeededKey, personKey } from '../seal-data.ts';
import { isClassName, isKeyName, type KeyName, keyNameText } from '../sealed-text.ts';
import { ageOf, type KeyringClock, type Moment, momentOf } from './age.ts';
import type { SubjectRow, Vault, VaultAnswer } from './vault.ts';

/** How long others wait for a read that is under way. One that hangs holds up nobody who comes later. */
const PATIENCE_MS = 100;

export interface TimedAnswer extends VaultAnswer {
  /** Before the vault was asked. */
  readonly askedAt: Moment;
}

/** Reads of a vault. However many ask while one is under way, the next one asks for all of them. */
export interface GatheredReads {
  /** The newest keys of persons. @throws SealingError what `Vault.read` rejects with */
  ofPersons(persons: readonly NeededKey[]): Promise<TimedAnswer>;
  /** Keys by their names. @throws SealingError what `Vault.read` rejects with */
  byName(names: readonly KeyName[]): Promise<TimedAnswer>;
}

export function gatheredReads(vault: Pick<Vault, 'read'>, clock: KeyringClock): GatheredReads {
  return {
    // Apart, or an older version that is asked for by its name could be taken for the newest one of its person.
    ofPersons: gathered((persons) => vault.read(persons, []), personKey, isSoundPerson, clock),
    byName: gathered(
      (names) => vault.read([], names),
      keyNameText,
      (name) => isKeyName(keyNameText(name)),
      clock,
    ),
  };
}

interface Waiting<Wanted> {
  readonly wanted: ReadonlyMap<string, Wanted>;
  readonly answered: PromiseWithResolvers<TimedAnswer>;
}

function gathered<Wanted>(
  read: (wanted: readonly Wanted[]) => Promise<VaultAnswer>,
  idOf: (wanted: Wanted | SubjectRow) => string,
  isSound: (wanted: Wanted) => boolean,
  clock: KeyringClock,
): (wanted: readonly Wanted[]) => Promise<TimedAnswer> {
  let underWay: Moment | null = null;
  let waiting: Waiting<Wanted>[] = [];

  const timed = async (wanted: readonly Wanted[]): Promise<TimedAnswer> => {
    const askedAt = momentOf(clock);
    return { ...(await read(wanted)), askedAt };
  };

  const readForAll = async (): Promise<void> => {
    const served = waiting;
    const startedAt = momentOf(clock);
    waiting = [];
    underWay = startedAt;
    try {
      const answer = await timed([...new Map(served.flatMap(({ wanted }) => [...wanted])).values()]);
      const rows = new Map(answer.subjects.map((row) => [idOf(row), row]));
      for (const { wanted, answered } of served) {
        answered.resolve({ ...answer, subjects: [...wanted.keys()].flatMap((id) => rows.get(id) ?? []) });
      }
    } catch (error) {
      for (const { answered } of served) answered.reject(error);
    }
    // Else one that began later says when the next may begin.
    if (underWay !== startedAt) return;
    underWay = null;
    if (waiting.length > 0) void readForAll();
  };

  return (wanted) => {
    // What the vault may refuse as a whole goes alone, and fails alone.
    if (!wanted.every(isSound)) return timed(wanted);
    const answered = Promise.withResolvers<TimedAnswer>();
    waiting.push({ wanted: new Map(wanted.map((one) => [idOf(one), one])), answered });
    if (underWay === null || ageOf(clock, underWay) >= PATIENCE_MS) void readForAll();
    return answered.promise;
  };
}

function isSoundPerson({ class: className, subject }: NeededKey): boolean {
  return isClassName(className) && isSubject(subject);
}
