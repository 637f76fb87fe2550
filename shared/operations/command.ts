/** The arguments of a command as JSON Schema: an object with nothing beyond what it names. */
interface ArgumentsSchema {
  readonly type: 'object';
  readonly additionalProperties: false;
  readonly required: readonly string[];
  /** `description` is what `--help` says. What is `writeOnly` may be a payload's and is written down nowhere. */
  readonly properties: Readonly<Record<string, ArgumentSchema>>;
}

export interface ArgumentSchema {
  readonly type?: 'string' | 'integer' | 'boolean' | 'array';
  readonly description: string;
  readonly writeOnly?: true;
}

/** One command of an operator, as data: the function runs it, the command line and the documents are made from it. */
export interface Command {
  /** One sentence. */
  readonly summary: string;
  /**
   * - `glance`: counts and states only; leaves a log line, no row
   * - `look`: names events or persons, or shows data; audited
   * - `act`: changes something; audited, and needs a reason
   */
  readonly kind: 'glance' | 'look' | 'act';
  /** Whose database it concerns. `queues`: none, it asks SQS. `erasure`: the vault's, KMS and the log of erasures. `archive`: the outbox's and the archive of events. */
  readonly area: 'outbox' | 'inbox' | 'queues' | 'vault' | 'erasure' | 'archive';
  readonly arguments: ArgumentsSchema;
  /** Which arguments are given by their place, in this order; the others have names. All are required. */
  readonly places: readonly string[];
  /** What cannot be undone, and the argument that a person types to confirm it. */
  readonly confirm?: { readonly type: string; readonly because: string };
  /** A glance or look with (some of) the same arguments that is shown before the question. */
  readonly before?: string;
  /** In a table, for each list of the answer, the fields that people see; all are in `--json`. */
  readonly columns?: Readonly<Record<string, readonly string[]>>;
  /** Words behind the command's name. The first is complete, for whoever copies it. */
  readonly examples: readonly string[];
}

/** Keeps the literal types of a schema, from which those of the arguments follow. */
export function argumentsOf<
  const Properties extends Readonly<Record<string, ArgumentSchema>>,
  const Required extends readonly (keyof Properties & string)[],
>(
  required: Required,
  properties: Properties,
): {
  readonly type: 'object';
  readonly additionalProperties: false;
  readonly required: Required;
  readonly properties: Properties;
} {
  return { type: 'object', additionalProperties: false, required, properties };
}
