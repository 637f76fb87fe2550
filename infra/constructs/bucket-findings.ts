import { Stack } from 'aws-cdk-lib';
import type { Bucket, CfnBucket } from 'aws-cdk-lib/aws-s3';
import type { IConstruct } from 'constructs';

/** As cdk-nag names the bucket's ARN in a finding about `from`: the export of another stack, or the resource of this one. */
export function arnInFindings(bucket: Bucket, from: IConstruct): string {
  const home = Stack.of(bucket);
  if (Stack.of(from) === home) return `<${home.getLogicalId(bucket.node.defaultChild as CfnBucket)}.Arn>`;
  return home.resolve(home.exportValue(bucket.bucketArn))['Fn::ImportValue'];
}
