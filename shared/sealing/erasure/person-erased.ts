import type { Queryable } from '../../database/index.ts';
import type { Subject } from '../wrapped-key.ts';
import { clearColumns, defineErasable, type ErasableColumns } from './columns.ts';

/** What is told of an erasure. Nothing of it says who the person is to somebody who does not know the id. */
export interface PersonErased {
  readonly subject: Subject;
  /** Whose keys are gone. */
  readonly classes: readonly string[];
  /** Whose keys are kept from readers, and destroyed later. */
  readonly restricted: readonly string[];
  /** 1: just now. 2: once more, when no cache has the keys any longer. */
  readonly pass: 1 | 2;
}

/** Writes the event, in the transaction of the erasure. */
export type Announce = (tx: Queryable, erased: PersonErased) => Promise<void>;

const text = { type: 'string', minLength: 1, maxLength: 200 } as const;
const classes = { type: 'array', items: { type: 'string' } } as const;
const versions = {
  1: {
    type: 'object',
    additionalProperties: false,
    required: ['subject', 'classes', 'restricted', 'pass'],
    properties: {
      subject: {
        type: 'object',
        additionalProperties: false,
        required: ['kind', 'id'],
        properties: { kind: text, id: text },
      },
      classes,
      restricted: classes,
      pass: { type: 'integer', enum: [1, 2] },
    },
  },
} as const;

/**
 * The event for a catalogue: `'person.erased': personErasedEvent('queue-a', 'bus-b')`. Every consumer that keeps copies in clear or an index of its own needs it;
 * `erasedPersonsHandler` is what it does with it.
 */
export function personErasedEvent<const Destinations extends readonly string[]>(
  ...destinations: Destinations
): {
  readonly aggregate: 'person';
  readonly versions: typeof versions;
  readonly whenParked: 'skip';
  readonly destinations: Destinations;
} {
  return { aggregate: 'person', versions, whenParked: 'skip', destinations };
}

/**
 * The event as `outbox.append` takes it:
 *
 * ```ts
 * const announce: Announce = async (tx, erased) => void (await outbox.append(tx, [personErased(erased)]));
 * ```
 */
export function personErased({ subject, classes: erased, restricted, pass }: PersonErased): {
  readonly type: 'person.erased';
  readonly aggregate: { readonly type: 'person'; readonly id: string };
  readonly data: {
    readonly subject: { readonly kind: string; readonly id: string };
    readonly classes: string[];
    readonly restricted: string[];
    readonly pass: 1 | 2;
  };
} {
  return {
    type: 'person.erased',
    aggregate: { type: 'person', id: subject.id },
    data: {
      subject: { kind: subject.kind, id: subject.id },
      classes: [...erased],
      restricted: [...restricted],
      pass,
    },
  };
}

/**
 * A consumer's handler of `person.erased`: clears the person's columns in its own tables, in the transaction of the message. The event comes
 * twice: what a process wrote in clear because it still had the key is cleared the second time.
 *
 * ```ts
 * handlers: { 'person.erased': erasedPersonsHandler(defineErasable([…])) }
 * ```
 *
 * Columns of a class that is only restricted stay. A consumer with other copies (files, a search index) deletes them in a handler of its own.
 */
export function erasedPersonsHandler(
  erasable: readonly ErasableColumns[],
): (
  event: { readonly data: Pick<PersonErased, 'subject' | 'classes'> },
  context: { readonly tx: Queryable },
) => Promise<void> {
  const checked = defineErasable(erasable);
  return async ({ data }, { tx }) => {
    await clearColumns(tx, checked, data.subject, data.classes);
  };
}
