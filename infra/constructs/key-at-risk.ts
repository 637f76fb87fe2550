import { EventField, Rule, RuleTargetInput } from 'aws-cdk-lib/aws-events';
import { SnsTopic } from 'aws-cdk-lib/aws-events-targets';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';
import type { ISealingKeys } from './sealing-keys.ts';

export interface KeyAtRiskProps {
  readonly keys: ISealingKeys;
  /** Told at once, about attempts that were refused as well. In the region of the key. */
  readonly topic: ITopic;
}

/** What can take a key from its readers, or give it to others; and what takes the first back. */
const CALLS = [
  'CancelKeyDeletion',
  'CreateGrant',
  'DisableKey',
  'DisableKeyRotation',
  'EnableKey',
  'PutKeyPolicy',
  'ReplicateKey',
  'ScheduleKeyDeletion',
  'UpdatePrimaryRegion',
];

/**
 * Tells a topic when somebody disables or deletes the vault's KMS key, or changes who may: what, who, when, and whether it was refused.
 *
 * Needs a trail of CloudTrail that records management events in the key's region: without one EventBridge is not told of these calls.
 */
export class KeyAtRisk extends Construct {
  readonly rule: Rule;

  constructor(scope: Construct, id: string, { keys, topic }: KeyAtRiskProps) {
    super(scope, id);
    const { keyArn, keyId } = keys.key;
    const said = (path: string): string => EventField.fromPath(`$.detail.${path}`);
    this.rule = new Rule(this, 'Rule', {
      description: `Somebody changes the KMS key of the vault ${keys.vaultName}`,
      eventPattern: {
        source: ['aws.kms'],
        detailType: ['AWS API Call via CloudTrail'],
        detail: {
          eventName: CALLS,
          // The key as the caller wrote it, and as KMS understood it: a call that was refused may have one of them only.
          $or: [{ resources: { ARN: [keyArn] } }, { requestParameters: { keyId: [keyId, keyArn] } }],
        },
      },
    });
    this.rule.addTarget(
      new SnsTopic(topic, {
        message: RuleTargetInput.fromText(
          `KMS key ${keyArn} of the vault ${keys.vaultName}: ${said('eventName')} by ${said('userIdentity.arn')} at ${said('eventTime')} ` +
            `(error: ${said('errorCode')}). Runbook: docs/runbooks/key-at-risk.md`,
        ),
      }),
    );
  }
}
