/** Structured fields of a log line. Never a payload value: ids, names, counts, durations and codes only. */
export type LogFields = Readonly<Record<string, unknown>>;

/** What the library logs to. A powertools Logger fits as it is; so does `console`. */
export interface Log {
  debug(message: string, ...fields: LogFields[]): void;
  info(message: string, ...fields: LogFields[]): void;
  warn(message: string, ...fields: LogFields[]): void;
  error(message: string, ...fields: LogFields[]): void;
}

/** Drops everything. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };
