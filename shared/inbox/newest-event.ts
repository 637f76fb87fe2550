import { type CompiledCatalogue, type ReceivedEvent, upcastData } from '../events/index.ts';
import { type Failure, whereThrown } from './failure.ts';

export type NewestEvent =
  | { readonly ok: true; readonly event: ReceivedEvent }
  /** `ignore`: it is older than the oldest upcaster, and its type lets such events go. */
  | { readonly ok: false; readonly failure: Failure | 'ignore' };

/**
 * The event as handlers see it: in the newest version of its type. Takes what `readEvent` has accepted; never throws.
 *
 * @param whole whether nothing in it stayed closed
 */
export function newestEvent(catalogue: CompiledCatalogue, event: ReceivedEvent, whole = true): NewestEvent {
  const upcast = upcastData(catalogue, event.type, event.schemaVersion, event.data, whole);
  if (upcast.ok) return { ok: true, event: { ...event, schemaVersion: upcast.version, data: upcast.data } };
  const { reason } = upcast;
  switch (upcast.fault) {
    case 'too-old': {
      if (catalogue.events[event.type]?.older === 'ignore') return { ok: false, failure: 'ignore' };
      return { ok: false, failure: { class: 'unknown-version', code: 'EVENT_VERSION_TOO_OLD', reason } };
    }
    case 'threw':
      return {
        ok: false,
        failure: { class: 'malformed', code: 'UPCASTER_FAILED', reason, ...whereThrown(upcast.cause) },
      };
    case 'invalid':
      return { ok: false, failure: { class: 'malformed', code: 'UPCASTER_RESULT_INVALID', reason } };
  }
}
