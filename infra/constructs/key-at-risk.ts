import { Stack } from 'aws-cdk-lib';
import { EventField, Rule, RuleTargetInput } from 'aws-cdk-lib/aws-events';
import { ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';
import type { ISealingKeys } from './sealing-keys.ts';

export interface KeyAtRiskProps {
  readonly keys: ISealingKeys;
  /** Keys of storage, such as `OutboxCluster.encryptionKey`: of what is done to them everything but grants is told, which AWS's services make themselves. Default: none. */
  readonly storageKeys?: readonly IKey[];
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
 * Tells a topic when somebody disables or deletes the vault's KMS key, or changes who may: what, who, when, and whether it was refused. The topic's policy lets this rule publish and no
 * other, so let CloudWatch publish as well where alarms tell it, too; a topic that is imported must allow it itself.
 *
 * Needs a trail of CloudTrail that records management events in the key's region: without one EventBridge is not told of these calls.
 */
export class KeyAtRisk extends Construct {
  readonly rule: Rule;
  /** About `storageKeys`; none without them. */
  readonly storageRule: Rule | undefined;
  private readonly topic: ITopic;

  constructor(scope: Construct, id: string, { keys, storageKeys = [], topic }: KeyAtRiskProps) {
    super(scope, id);
    this.topic = topic;
    const { vaultName, key } = keys;
    this.rule = this.tell('Rule', `the KMS key of the vault ${vaultName}`, [key], CALLS);
    this.storageRule =
      storageKeys.length === 0
        ? undefined
        : this.tell(
            'StorageRule',
            'a KMS key of storage',
            storageKeys,
            CALLS.filter((call) => call !== 'CreateGrant'),
          );
  }

  private tell(id: string, what: string, keys: readonly IKey[], calls: readonly string[]): Rule {
    const arns = keys.map(({ keyArn }) => keyArn);
    const said = (path: string): string => EventField.fromPath(`$.detail.${path}`);
    const rule = new Rule(this, id, {
      description: `Somebody changes ${what}`,
      eventPattern: {
        source: ['aws.kms'],
        detailType: ['AWS API Call via CloudTrail'],
        detail: {
          eventName: [...calls],
          // The key as the caller wrote it, and as KMS understood it: a call that was refused may have one of them only.
          $or: [
            { resources: { ARN: arns } },
            { requestParameters: { keyId: keys.flatMap(({ keyId, keyArn }) => [keyId, keyArn]) } },
          ],
        },
      },
    });
    const message = RuleTargetInput.fromText(
      `${what} (${arns.join(', ')}): ${said('eventName')} of ${said('requestParameters.keyId')} by ${said('userIdentity.arn')} at ${said('eventTime')} ` +
        `(error: ${said('errorCode')}). Runbook: docs/runbooks/key-at-risk.md`,
    );
    // Not CDK's own target, which lets every rule of every account publish.
    rule.addTarget({ bind: () => ({ arn: this.topic.topicArn, input: message, targetResource: this.topic }) });
    this.topic.grantPublish(
      new ServicePrincipal('events.amazonaws.com', { conditions: { ArnLike: { 'aws:SourceArn': this.nameOf(rule) } } }),
    );
    return rule;
  }

  /** In a stack of its own, any rule of this account: the topic's stack would need this one, and this one needs the topic. */
  private nameOf(rule: Rule): string {
    const stack = Stack.of(this);
    return Stack.of(this.topic) === stack
      ? rule.ruleArn
      : stack.formatArn({ service: 'events', resource: 'rule', resourceName: '*' });
  }
}
