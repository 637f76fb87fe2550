/**
 * Which step follows with a call of another system: pure, no database and no clock.
 *
 * - `uncalled`: nothing was asked of the provider yet, or it is known that what was asked did not happen
 * - `unanswered`: a call was begun whose answer nobody has: it may have happened
 * - `leased`: another delivery of the event is at it right now
 * - `done`: the answer is recorded
 * - `held`: nobody knows whether it happened, and a person decides
 */
export type CallState = 'uncalled' | 'unanswered' | 'leased' | 'done' | 'held';

/** What is known from the provider: `possible` before it was asked, `none` where it cannot be asked. */
export type Known = 'none' | 'possible' | 'done' | 'not-done' | 'unknown' | 'unavailable';

/** What becomes of a call that may have happened, when nobody can say. */
export type UnansweredPolicy = 'retry' | 'hold';

/**
 * - `answer`: give what is recorded
 * - `call`: call, with the key of the reservation
 * - `look-up`: ask the provider what became of the key
 * - `record`: keep the answer that the look-up found
 * - `hold`: leave it to a person
 * - `refuse`: a person has not decided yet
 * - `wait`: come again later
 */
export type CallStep = 'answer' | 'call' | 'look-up' | 'record' | 'hold' | 'refuse' | 'wait';

/**
 * Decides about the next step.
 *
 * A provider whose look-up is away is no reason to bother a person, and where `retry` says that the same key may be sent again, no
 * reason to wait either. That nothing has happened *yet* is believed at once only where a repeat does no harm: a call that we gave
 * up may still be on its way.
 *
 * @param settled whether so much time has passed since the call began that it cannot happen any more
 */
export function nextStep(state: CallState, policy: UnansweredPolicy, known: Known, settled: boolean): CallStep {
  switch (state) {
    case 'done':
      return 'answer';
    case 'held':
      return 'refuse';
    case 'leased':
      return 'wait';
    case 'uncalled':
      return 'call';
    case 'unanswered':
      break;
  }
  switch (known) {
    case 'possible':
      return 'look-up';
    case 'done':
      return 'record';
    case 'not-done':
      return policy === 'retry' || settled ? 'call' : 'wait';
    case 'unavailable':
      return policy === 'retry' ? 'call' : 'wait';
    case 'none':
    case 'unknown':
      return policy === 'retry' ? 'call' : 'hold';
  }
}
