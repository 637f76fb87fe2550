import { SealedOutboxError } from '../../../shared/errors/index.ts';
import { header, type HttpEvent } from './request.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Who sees personal values whole. */
export interface CallerRules {
  /** ARNs of IAM users and roles. A role means all its sessions. */
  readonly seeClearValues: readonly string[];
  /** Where requests are not signed, the header that names the principal. Undefined wherever they are. */
  readonly localHeader?: string;
}

/** A variable about callers cannot be read. Thrown at start. */
class CallerConfigError extends SealedOutboxError {
  constructor(message: string) {
    super('CALLER_CONFIG', `${message} No request is answered.`);
  }
}

const PRINCIPAL = /^arn:aws[a-z-]*:iam::[0-9]{12}:(?:role|user)\/[\w+=,.@/-]+$/;

/**
 * Reads `CLEAR_VALUES_FOR` (a JSON list of ARNs of IAM roles and users; default: nobody) and `LOCAL_PRINCIPAL_HEADER` (the name of a header; only
 * the local cloud sets it).
 *
 * @throws CallerConfigError (`CALLER_CONFIG`)
 */
export function callerRules(env: Environment): CallerRules {
  const seeClearValues = principals(env['CLEAR_VALUES_FOR'] ?? '[]');
  const localHeader = env['LOCAL_PRINCIPAL_HEADER']?.toLowerCase();
  return { seeClearValues, ...(localHeader ? { localHeader } : {}) };
}

function principals(text: string): readonly string[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  if (Array.isArray(value) && value.every((arn) => typeof arn === 'string' && PRINCIPAL.test(arn))) return value;
  throw new CallerConfigError(
    'CLEAR_VALUES_FOR must be a JSON list of ARNs of IAM roles and users, without wildcards.',
  );
}

/** Whether this caller sees personal values whole. A signature counts before any header. */
export function seesClearValues(rules: CallerRules, event: HttpEvent): boolean {
  const signedBy = event.requestContext.authorizer?.iam?.userArn;
  const principal = signedBy ?? (rules.localHeader === undefined ? undefined : header(event, rules.localHeader));
  if (typeof principal !== 'string') return false;
  return rules.seeClearValues.some((allowed) => isPrincipal(principal, allowed));
}

const SESSION = /^arn:(aws[a-z-]*):sts::([0-9]{12}):assumed-role\/([^/]+)\/[^/]+$/;
const ROLE = /^arn:(aws[a-z-]*):iam::([0-9]{12}):role\/(?:.*\/)?([^/]+)$/;

/** The gateway names a role by one of its sessions, without the role's path; within an account the names of roles are unique. */
function isPrincipal(principal: string, allowed: string): boolean {
  if (principal === allowed) return true;
  const session = SESSION.exec(principal)?.slice(1);
  const role = ROLE.exec(allowed)?.slice(1);
  return session !== undefined && role !== undefined && session.every((part, index) => part === role[index]);
}
