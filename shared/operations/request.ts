import type { Command } from './command.ts';

/** What the operator's function is invoked with. */
export interface OperationRequest {
  readonly command: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** Who calls, as they say: an ARN from STS. Whoever may invoke the function can write anything here; CloudTrail knows. */
  readonly by: string;
  /** Why. Only, and always, for a command that changes something. */
  readonly reason?: string;
}

/** The envelope; the arguments have a schema for each command. */
export const requestSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['command', 'arguments', 'by'],
  properties: {
    command: { type: 'string', minLength: 1, maxLength: 100 },
    arguments: { type: 'object' },
    by: { type: 'string', pattern: '^[^\\u0000-\\u001f]*\\S[^\\u0000-\\u001f]*$', maxLength: 300 },
    reason: { type: 'string', pattern: '^[^\\u0000]*\\S[^\\u0000]*$', maxLength: 500 },
  },
} as const;

export type OperationAnswer =
  | {
      readonly ok: true;
      /** Number in `outbox.operator_act`; null: a glance. */
      readonly act: string | null;
      /** JSON: 64-bit numbers are strings, times are RFC 3339. `more: true` in it: part of the work is done, call again. */
      readonly result: Readonly<Record<string, unknown>>;
    }
  | {
      readonly ok: false;
      readonly act: string | null;
      /** `refused`: nothing was changed. `failed`: the message says what is known. */
      readonly outcome: 'refused' | 'failed';
      readonly code: string;
      readonly message: string;
    };

/** The arguments as they may be written down. */
export function recordedArguments(
  { arguments: { properties } }: Command,
  given: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, properties[name]?.writeOnly === true ? '(not kept)' : value]),
  );
}
