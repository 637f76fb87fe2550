import type { Log, LogFields } from '../../shared/telemetry/index.ts';

/** What a process says of an error that no fault of the run explains. */
export interface UnexplainedReport {
  readonly unexplained: string;
}

const isState = (code: string): boolean => /^[0-9A-DF-Z][0-9A-Z]{4}$/.test(code);
/** By class: connections, resources, an operator's or a time-out's end, rolled back by the server. And: a lock not got, idle in a transaction. */
const OF_FAULTS = /^(?:08|53|57|40|55P03|25P03)/;
const OF_PROGRAMS = /^(?:Type|Range|Reference|Syntax)Error$/;

/**
 * Whether an error's code says that a statement or a program is wrong, and not that something was cut, stopped or late. Such an error is tried
 * again like an outage, so a run could pass with it, only slower.
 */
export function isUnexplained(code: string): boolean {
  return isState(code) ? !OF_FAULTS.test(code) : OF_PROGRAMS.test(code);
}

/** A log that hands on what no fault explains, at whatever level it is logged, and all that is a warning or worse to `beside`. */
export function unexplainedLog(
  say: (report: UnexplainedReport) => void,
  beside: (message: string, fields: LogFields) => void = () => {},
): Log {
  const look = (message: string, fields: LogFields = {}): void => {
    const { code } = fields;
    if (typeof code === 'string' && isUnexplained(code)) say({ unexplained: `${code}: ${message}` });
  };
  const loud = (message: string, fields: LogFields = {}): void => {
    look(message, fields);
    beside(message, fields);
  };
  return { debug: look, info: look, warn: loud, error: loud };
}
