import { type DataOf, violations } from '../../../shared/events/index.ts';
import { ProblemError } from './problem.ts';
import type { schemas } from './schemas.ts';
import { validators } from './validators.generated.js';

/** The parts of an HTTP API event (payload version 2.0) that are read here. */
export interface HttpEvent {
  readonly routeKey: string;
  readonly rawPath: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly pathParameters?: Readonly<Record<string, string | undefined>>;
  readonly body?: string;
  readonly isBase64Encoded: boolean;
  readonly requestContext: {
    readonly http: { readonly method: string };
    /** Where requests are signed. `userArn` names a user, or a session of a role. */
    readonly authorizer?: { readonly iam?: { readonly userArn?: string } };
  };
}

/** More than the largest invoice needs; far below what a queue takes. Bytes. */
export const MAX_BODY_BYTES = 262_144;

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const IDEMPOTENCY_KEY = /^[!-~]{1,255}$/;

/** The gateway sends header names in lower case; a caller in tests or behind another gateway may not. */
export function header(event: HttpEvent, name: string): string | undefined {
  const found = Object.entries(event.headers).find(([key]) => key.toLowerCase() === name);
  return found?.[1];
}

/**
 * @param what the path names, for the answer
 * @throws ProblemError 404: an id that is no UUID names nothing
 */
export function pathId(event: HttpEvent, what: 'invoice' | 'customer' = 'invoice'): string {
  const id = event.pathParameters?.['id'] ?? '';
  if (!UUID.test(id)) throw new ProblemError('not-found', `There is no ${what} with this id.`);
  return id.toLowerCase();
}

/** @throws ProblemError 400 */
export function idempotencyKey(event: HttpEvent): string {
  const key = header(event, 'idempotency-key');
  if (key === undefined || !IDEMPOTENCY_KEY.test(key)) {
    throw new ProblemError(
      'invalid-request',
      'The header Idempotency-Key is required: 1 to 255 visible ASCII characters, new for each request, the same for its repeats.',
    );
  }
  return key;
}

/** @throws ProblemError 413, 415 */
export function bodyBytes(event: HttpEvent): Buffer {
  const type = header(event, 'content-type') ?? '';
  if (!/^application\/json\s*(?:;\s*charset="?utf-8"?\s*)?$/i.test(type.trim())) {
    throw new ProblemError('unsupported-media-type', 'Send JSON, with the header Content-Type: application/json.');
  }
  const bytes = Buffer.from(event.body ?? '', event.isBase64Encoded ? 'base64' : 'utf8');
  if (bytes.length > MAX_BODY_BYTES) {
    throw new ProblemError('content-too-large', `The body has more than ${MAX_BODY_BYTES} bytes.`);
  }
  return bytes;
}

/** @throws ProblemError 400, naming the fields that are wrong by JSON Pointer. */
export function parseBody<Name extends keyof typeof schemas>(
  bytes: Buffer,
  name: Name,
): DataOf<(typeof schemas)[Name]> {
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new ProblemError('invalid-request', 'The body is not JSON in UTF-8.', {
      violations: [{ pointer: '', detail: 'is not JSON' }],
    });
  }
  const found = violations(validators[name], body);
  if (found.length > 0) {
    throw new ProblemError('invalid-request', 'Some fields of the body are not valid.', { violations: found });
  }
  return body as DataOf<(typeof schemas)[Name]>;
}
