import { SealedOutboxError } from '../shared/errors/index.ts';
import type { StageName } from './stages.ts';

/** The callers who see personal values whole are not given as a list of principals. Code `CLEAR_VALUES_SETTING`. */
class ClearValuesSettingError extends SealedOutboxError {
  constructor() {
    super(
      'CLEAR_VALUES_SETTING',
      'The principals who see personal values whole must be a JSON list of ARNs of IAM roles and users, without wildcards: ' +
        `-c 'clearValuesFor=["arn:aws:iam::111122223333:role/Clerk"]'. Nothing was synthesised.`,
    );
  }
}

const PRINCIPAL = /^arn:aws[a-z-]*:iam::[0-9]{12}:(?:role|user)\/[\w+=,.@/-]+$/;
/** Local requests are not signed: there a header names the principal, and this is the one who sees all. */
const LOCAL: Readonly<Record<string, string>> = {
  LOCAL_PRINCIPAL_HEADER: 'x-local-principal',
  CLEAR_VALUES_FOR: JSON.stringify(['arn:aws:iam::000000000000:role/clerk']),
};

/**
 * What the sample API's function is told about its callers.
 *
 * @param context the value `clearValuesFor`, as JSON text or a list; without it nobody on AWS sees personal values whole
 * @throws ClearValuesSettingError (`CLEAR_VALUES_SETTING`)
 */
export function clearValuesSetting(stage: StageName, context: unknown): Readonly<Record<string, string>> {
  if (stage === 'local') return LOCAL;
  const principals = context === undefined ? [] : listOf(context);
  if (!principals.every((arn) => typeof arn === 'string' && PRINCIPAL.test(arn))) throw new ClearValuesSettingError();
  return { CLEAR_VALUES_FOR: JSON.stringify(principals) };
}

function listOf(context: unknown): readonly unknown[] {
  let value = context;
  try {
    if (typeof context === 'string') value = JSON.parse(context);
  } catch {
    value = undefined;
  }
  if (!Array.isArray(value)) throw new ClearValuesSettingError();
  return value;
}
