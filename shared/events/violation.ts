/** One fault that a compiled schema found; the part of ajv's error object that is read here. */
export interface SchemaFault {
  /** JSON Pointer to the value. */
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly message?: string;
}

/** A compiled schema: true, or false with `errors` set until the next call. */
export interface Validate {
  (data: unknown): boolean;
  errors?: readonly SchemaFault[] | null;
}

/** A fault that may be shown and logged: it names the place and the rule, never the value. */
export interface Violation {
  /** JSON Pointer to the field; for a missing field to where it should be. Empty for the whole document. */
  readonly pointer: string;
  readonly detail: string;
}

/** The first faults that `validate` found in `data`, at most `limit`; none when it is valid. */
export function violations(validate: Validate, data: unknown, limit = 20): Violation[] {
  if (validate(data)) return [];
  return (validate.errors ?? []).slice(0, limit).map(violation);
}

function violation({ instancePath, keyword, params, message }: SchemaFault): Violation {
  switch (keyword) {
    case 'required':
      return { pointer: child(instancePath, params['missingProperty']), detail: 'is required' };
    case 'additionalProperties':
      return { pointer: child(instancePath, params['additionalProperty']), detail: 'is not a known field' };
    case 'unevaluatedProperties':
      return { pointer: child(instancePath, params['unevaluatedProperty']), detail: 'is not a known field' };
    case 'enum': {
      const allowed = params['allowedValues'];
      const list = Array.isArray(allowed) ? `: ${allowed.map((value) => JSON.stringify(value)).join(', ')}` : '';
      return { pointer: instancePath, detail: `must be one of the allowed values${list}` };
    }
    default:
      return { pointer: instancePath, detail: message ?? `breaks the rule '${keyword}'` };
  }
}

function child(pointer: string, name: unknown): string {
  return `${pointer}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** Writes a JSON Pointer the way code does: `/lines/0/unit price` → `.lines[0]["unit price"]`. */
export function pointerToPath(pointer: string): string {
  if (pointer === '') return '';
  return pointer
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .map((part) => {
      if (/^(?:0|[1-9]\d*)$/.test(part)) return `[${part}]`;
      return /^[A-Za-z_$][\w$]*$/.test(part) ? `.${part}` : `[${JSON.stringify(part)}]`;
    })
    .join('');
}
