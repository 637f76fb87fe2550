import { parseArgs } from 'node:util';
import { SealedOutboxError } from '../../shared/errors/index.ts';
import { SAMPLE_FAN_OUT, type Workload } from './traffic.ts';

/** The workload is not described, or cannot be. Code `COST_USAGE`. */
class CostUsageError extends SealedOutboxError {
  constructor(message: string) {
    super('COST_USAGE', message);
  }
}

export type Wanted =
  | { readonly help: true }
  | { readonly help: false; readonly json: boolean; readonly workload: Workload };

/** @throws CostUsageError (`COST_USAGE`) naming the option */
export function wantedOf(words: readonly string[]): Wanted {
  const values = valuesOf(words);
  if (values.help === true) return { help: true };
  const { stage = 'prod' } = values;
  if (stage !== 'dev' && stage !== 'prod') throw new CostUsageError('--stage must be dev or prod.');
  const number = (name: keyof typeof values, { above = 0, most = 1e12 } = {}): number | undefined => {
    const given = values[name];
    if (given === undefined) return undefined;
    const value = Number(given);
    if (given !== '' && Number.isFinite(value) && value >= above && value <= most) return value;
    throw new CostUsageError(`--${name} must be a number from ${above} to ${most}.`);
  };
  const eventsPerDay = number('events-per-day', { above: 1 });
  const payloadBytes = number('payload', { above: 1, most: 1_000_000 });
  if (eventsPerDay === undefined || payloadBytes === undefined)
    throw new CostUsageError('--events-per-day and --payload (bytes) are needed.');
  const fanOut = {
    fifo: number('fifo') ?? SAMPLE_FAN_OUT.fifo,
    bus: number('bus') ?? SAMPLE_FAN_OUT.bus,
    queue: number('queue') ?? SAMPLE_FAN_OUT.queue,
  };
  const acu = number('acu', { above: 0.5, most: 256 });
  return { help: false, json: values.json === true, workload: { stage, eventsPerDay, payloadBytes, fanOut, acu } };
}

function valuesOf(words: readonly string[]) {
  const text = { type: 'string' } as const;
  const options = {
    'events-per-day': text,
    payload: text,
    stage: text,
    fifo: text,
    bus: text,
    queue: text,
    acu: text,
  } as const;
  try {
    return parseArgs({
      args: [...words],
      options: { ...options, json: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
    }).values;
  } catch (error) {
    throw new CostUsageError((error as Error).message);
  }
}
