import type { Log } from 'sealed-outbox/telemetry';

const line =
  (level: string): Log['info'] =>
  (message, fields) =>
    console.log(JSON.stringify({ level, message, ...fields }));

/** Any structured logger will do; this one has no dependencies. */
export const log: Log = { debug: () => {}, info: line('INFO'), warn: line('WARN'), error: line('ERROR') };
