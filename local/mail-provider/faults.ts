/**
 * What the provider does wrong on demand, to the next requests of their kind.
 * - `fail`: answers 500 and does nothing
 * - `refuse`: answers 422 and never will
 * - `act-and-hang`: sends the mail and never answers
 * - `act-and-drop`: sends the mail and cuts the connection
 * - `late`: waits until `POST /admin/release`, then sends the mail and answers, whether or not anybody still listens
 * - `lookup-fails`: answers a look-up with 500
 */
export const FAULTS = ['fail', 'refuse', 'act-and-hang', 'act-and-drop', 'late', 'lookup-fails'] as const;
export type Fault = (typeof FAULTS)[number];

export function isFault(text: unknown): text is Fault {
  return FAULTS.includes(text as Fault);
}
