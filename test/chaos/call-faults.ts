import type { Fault } from './fault-proxy.ts';
import { between, deck, pick, type Random } from './random.ts';

/** What can happen to a call between relay and queue. `refuse-connections` concerns all calls for a while. */
export const CALL_FAULTS = [
  'delay',
  'late-packet',
  'refuse-connections',
  'drop',
  'drop-answer',
  'cut-answer',
  'half-refuse',
  'throttle-entries',
  'throttle-call',
  'server-error',
] as const;

export type CallFault = (typeof CALL_FAULTS)[number];

export interface CallFaultsOptions {
  readonly random: Random;
  /** After this the relay gives a call up. Milliseconds. */
  readonly timeoutMs: number;
  /** Average time between two faults, milliseconds: by time and not by call, because each opens a circuit for half a second. */
  readonly everyMs: number;
  readonly now: () => number;
  /** Takes the whole queue away for a while. */
  readonly outage: (ms: number) => void;
  readonly injected: (kind: CallFault) => void;
}

export interface CallFaults {
  /** The fate of the next call. */
  next(): Fault;
  /** From now on everything passes. */
  calm(): void;
}

/** So many calls pass between two faults: where calls are few, each would fail, and relays would do nothing but wait longer and longer. */
const PASSES = 3;

/** A seeded plan of what happens to calls. */
export function callFaults(options: CallFaultsOptions): CallFaults {
  const { random, now } = options;
  const deal = deck(random, CALL_FAULTS);
  const wait = (): number => options.everyMs * between(random, 0.3, 1.7);
  let due = now() + wait();
  let over = false;
  let passed = 0;
  return {
    next() {
      if (over || now() < due || passed < PASSES) {
        passed += 1;
        return { kind: 'pass' };
      }
      due = now() + wait();
      passed = 0;
      const kind = deal();
      options.injected(kind);
      return faultOf(kind, options);
    },
    calm() {
      over = true;
    },
  };
}

function faultOf(kind: CallFault, { random, timeoutMs, outage }: CallFaultsOptions): Fault {
  switch (kind) {
    case 'delay':
      return { kind: 'delay', ms: between(random, 0.1, 0.6) * timeoutMs };
    case 'late-packet':
      return { kind: 'delay', ms: between(random, 1.2, 4) * timeoutMs };
    case 'refuse-connections':
      outage(between(random, 200, 1_000));
      return { kind: 'drop', hang: false };
    case 'drop':
      return { kind: 'drop', hang: random() < 0.3 };
    case 'drop-answer':
      return { kind: 'drop-answer', hang: random() < 0.3 };
    case 'cut-answer':
      return { kind: 'cut-answer' };
    case 'half-refuse':
      return refuse(random, pick(random, ['InternalError', 'ServiceHiccup', 'ReceiptHandleIsOdd']), random() < 0.5);
    case 'throttle-entries':
      return refuse(random, pick(random, ['ThrottlingException', 'RequestThrottled']), false);
    case 'throttle-call':
      return answer(400, { __type: 'com.amazonaws.sqs#RequestThrottled', message: 'slow down' });
    case 'server-error':
      return random() < 0.5
        ? answer(500, { __type: 'com.amazonaws.sqs#InternalFailure', message: 'sorry' })
        : { kind: 'answer', status: 503, type: 'text/html', body: '<html><h1>503 Service Unavailable</h1></html>' };
  }
}

function refuse(random: Random, code: string, senderFault: boolean): Fault {
  const mask = Math.floor(random() * 1023) + 1;
  return { kind: 'half-refuse', code, senderFault, refuses: (index) => ((mask >> index) & 1) === 1 };
}

function answer(status: number, body: object): Fault {
  return { kind: 'answer', status, type: 'application/x-amz-json-1.0', body: JSON.stringify(body) };
}
