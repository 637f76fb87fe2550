/** What has been done by a moment of the run. */
export interface Progress {
  readonly seconds: number;
  /** Events committed. */
  readonly events: number;
  /** First occurrences that the queues took. */
  readonly deliveries: number;
  /** Messages that the consumers acknowledged. */
  readonly acknowledged: number;
  /** Faults that have not had their turn. */
  readonly waitsFor: readonly string[];
}

/** Faults that a line names. */
const NAMED = 3;

const count = new Intl.NumberFormat('en');

/**
 * One line for people. The rate is that since the line before; what is left is reckoned from the whole run, because a fault halts everything for
 * seconds.
 */
export function progressLine(goal: number, now: Progress, before: Progress): string {
  const rate = (now.deliveries - before.deliveries) / Math.max(0.001, now.seconds - before.seconds);
  const left = now.events >= goal ? 0 : (goal - now.events) * (now.seconds / Math.max(1, now.events));
  return (
    `${now.seconds.toFixed(0)} s: ${count.format(now.events)} of ${count.format(goal)} events, ` +
    `${count.format(now.deliveries)} deliveries (${rate.toFixed(0)}/s), ${count.format(now.acknowledged)} acknowledged, ` +
    (left > 0
      ? `about ${Math.ceil(left / 60)} min of writing left`
      : `all written; faults go on until each had its turn${notYet(now.waitsFor)}`)
  );
}

function notYet(waitsFor: readonly string[]): string {
  if (waitsFor.length === 0) return '';
  return ` (not yet: ${waitsFor.slice(0, NAMED).join('; ')}${waitsFor.length > NAMED ? '; …' : ''})`;
}
