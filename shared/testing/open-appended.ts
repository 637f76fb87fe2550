import { type CompiledCatalogue, validatorKey } from '../events/index.ts';
import { type Keyring, openData, sealedWith } from '../sealing/index.ts';
import type { RecordedEvent } from './test-transaction.ts';

/**
 * The events with what is sealed in them opened, as a reader with all of the keyring's classes would get them.
 *
 * @throws SealingError as `Keyring.keysToOpen` and `openData` do
 */
export async function openAppended(
  catalogue: CompiledCatalogue,
  keyring: Keyring,
  events: readonly RecordedEvent[],
): Promise<RecordedEvent[]> {
  return Promise.all(events.map((event) => open(catalogue, keyring, event)));
}

async function open(catalogue: CompiledCatalogue, keyring: Keyring, event: RecordedEvent): Promise<RecordedEvent> {
  const { id, type, schemaVersion, aggregate, data } = event;
  const plan = catalogue.sealed.get(validatorKey(type, schemaVersion))?.plan;
  if (plan === undefined) return event;
  const keys = await keyring.keysToOpen(sealedWith(data, plan));
  const place = {
    in: 'event',
    eventType: type,
    aggregateType: aggregate.type,
    aggregateId: aggregate.id,
    eventId: id,
  } as const;
  return { ...event, data: openData(data, plan, keys, place) };
}
