import { type ReceivedEvent, validatorKey } from '../events/index.ts';
import {
  isOpenedWhole,
  KeysNotPreparedError,
  type KeyName,
  openData,
  type OpeningKeys,
  sealedWith,
  SealingError,
} from '../sealing/index.ts';
import { classifyFailure, type Failure } from './failure.ts';
import { type ReadEvent, violationsText } from './read-event.ts';
import type { ConsumerRules } from './work.ts';

export type OpenedEvent =
  /** `whole`: nothing in it stayed closed, or stands for something that was erased. */
  | { readonly ok: true; readonly event: ReceivedEvent; readonly whole: boolean }
  | { readonly ok: false; readonly failure: Failure };

/**
 * Loads the keys of events, in one read: of those that have a handler, for the classes that the consumer opens. What keeps one from being
 * loaded is said when it is asked for.
 */
export async function loadKeys(rules: ConsumerRules, reads: readonly ReadEvent[]): Promise<OpeningKeys> {
  const { keyring, opens } = rules;
  if (keyring === undefined) return () => 'denied';
  const names = reads.flatMap((read) => (read.ok ? namesIn(rules, read.event) : []));
  const keys = await keyring.keysToOpen(names);
  return (name) => {
    if (!opens.has(name.class)) return 'denied';
    const key = keys(name);
    if (key !== 'denied') return key;
    throw new SealingError('SEALING_DENIED', `This consumer opens class '${name.class}', and its login may not.`);
  };
}

function namesIn(rules: ConsumerRules, { type, schemaVersion, data }: ReceivedEvent): KeyName[] {
  const sealed = rules.catalogue.sealed.get(validatorKey(type, schemaVersion));
  if (sealed === undefined || rules.stepsOf(type) === undefined) return [];
  try {
    return sealedWith(data, sealed.plan).filter((name) => rules.opens.has(name.class));
  } catch (error) {
    // It is said again, as this event's failure, when it is opened.
    if (error instanceof SealingError) return [];
    throw error;
  }
}

/** Opens what the consumer may open of an event, in the version that was written. Takes what `readEvent` has accepted; never throws. */
export function openEvent({ catalogue }: ConsumerRules, event: ReceivedEvent, keys: OpeningKeys): OpenedEvent {
  const key = validatorKey(event.type, event.schemaVersion);
  const sealed = catalogue.sealed.get(key);
  if (sealed === undefined) return { ok: true, event, whole: true };
  const place = {
    in: 'event',
    eventType: event.type,
    aggregateType: event.aggregateType,
    aggregateId: event.aggregateId,
    eventId: event.id,
  } as const;
  try {
    const data = openData(event.data, sealed.plan, keys, place);
    const whole = isOpenedWhole(event.data, sealed.plan, keys);
    const reason = whole ? violationsText(catalogue.validators[key], data) : undefined;
    if (reason === undefined) return { ok: true, event: { ...event, data }, whole };
    return { ok: false, failure: { class: 'malformed', code: 'EVENT_DATA_INVALID', reason } };
  } catch (error) {
    if (!(error instanceof SealingError) && !(error instanceof KeysNotPreparedError)) throw error;
    return { ok: false, failure: classifyFailure(error) };
  }
}
