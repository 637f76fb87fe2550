import type { Log, LogFields, Metrics } from '../../shared/telemetry/index.ts';

/** Lines of recorded logs about statements that are wrong, or that a role may not run (SQLSTATE class 42). */
export const wrongStatements: string[] = [];

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly fields: LogFields;
}

/** A log that keeps its lines. */
export function recordingLog(): Log & { readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at =
    (level: LogLine['level']) =>
    (message: string, fields: LogFields = {}): void => {
      lines.push({ level, message, fields });
      const { code } = fields;
      if (typeof code === 'string' && /^42[0-9A-Z]{3}$/.test(code)) wrongStatements.push(`${code}: ${message}`);
    };
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** Metrics that can be asked for their sums. */
export function recordingMetrics(): Metrics & { sum(name: string, dimensions?: Record<string, string>): number } {
  const added: { name: string; value: number; dimensions: Readonly<Record<string, string>> }[] = [];
  return {
    add: (name, _unit, value, dimensions = {}) => {
      added.push({ name, value, dimensions });
    },
    sum: (name, wanted = {}) =>
      added
        .filter(
          (it) => it.name === name && Object.entries(wanted).every(([key, value]) => it.dimensions[key] === value),
        )
        .reduce((sum, it) => sum + it.value, 0),
  };
}
