import { Token } from 'aws-cdk-lib';
import { AnyPrincipal, Effect, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Key } from 'aws-cdk-lib/aws-kms';

const BREAK_GLASS = /^arn:aws[a-z-]*:iam::[0-9]{12}:(?:role|user)\/.+$/;

/**
 * Keeps everybody, the account's administrators included, from disabling `key` or scheduling its deletion, but for the principal that is named. Whoever
 * must without one changes the key's policy first, which CloudTrail records.
 *
 * @throws RangeError where `breakGlassArn` is no IAM role or user
 */
export function denyDeletion(key: Key, path: string, breakGlassArn: string | undefined): void {
  if (breakGlassArn !== undefined && !Token.isUnresolved(breakGlassArn) && !BREAK_GLASS.test(breakGlassArn)) {
    throw new RangeError(
      `${path}: breakGlassArn must be the ARN of an IAM role or user: of the role itself, not of a session in it.`,
    );
  }
  key.addToResourcePolicy(
    new PolicyStatement({
      sid: 'NeitherDisabledNorDeleted',
      effect: Effect.DENY,
      principals: [new AnyPrincipal()],
      actions: ['kms:DisableKey', 'kms:ScheduleKeyDeletion'],
      resources: ['*'],
      ...(breakGlassArn !== undefined && { conditions: { ArnNotEquals: { 'aws:PrincipalArn': breakGlassArn } } }),
    }),
  );
}
