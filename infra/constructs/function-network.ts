import { Stack, Validations } from 'aws-cdk-lib';
import type { ISecurityGroup, ISubnet, IVpc } from 'aws-cdk-lib/aws-ec2';
import { Effect, PolicyStatement, type Role } from 'aws-cdk-lib/aws-iam';

/** Where a function's network interfaces lie, and what they may reach. */
export interface FunctionNetwork {
  readonly vpc: IVpc;
  readonly subnets: readonly ISubnet[];
  readonly securityGroups: readonly ISecurityGroup[];
}

const DESCRIBE = ['ec2:DescribeNetworkInterfaces', 'ec2:DescribeSubnets'];
const CHANGE = [
  'ec2:AssignPrivateIpAddresses',
  'ec2:CreateNetworkInterface',
  'ec2:DeleteNetworkInterface',
  'ec2:UnassignPrivateIpAddresses',
];

/**
 * Lets Lambda make a function's network interfaces, which it does with the function's own role, and keeps the function's code from
 * doing the same: only calls out of the code carry `lambda:SourceFunctionArn`.
 */
export function allowNetworkInterfaces(role: Role): void {
  const stack = Stack.of(role);
  const inRegion = stack.formatArn({ service: 'ec2', resource: '*', resourceName: '*' });
  role.addToPolicy(new PolicyStatement({ actions: DESCRIBE, resources: ['*'] }));
  role.addToPolicy(new PolicyStatement({ actions: CHANGE, resources: [inRegion] }));
  role.addToPolicy(
    new PolicyStatement({
      effect: Effect.DENY,
      actions: [...DESCRIBE, ...CHANGE],
      resources: ['*'],
      conditions: {
        // Every function: the role is of one only, whose name is not known before its role is there.
        ArnLike: { 'lambda:SourceFunctionArn': stack.formatArn({ service: 'lambda', resource: 'function:*' }) },
      },
    }),
  );
  const reason =
    "Lambda's own calls for a function in a VPC: EC2 describes nothing by name, and interfaces have none before they are there. The function's code is denied all of them.";
  Validations.of(role).acknowledge(
    { id: 'AwsSolutions-IAM5[Resource::*]', reason },
    { id: `AwsSolutions-IAM5[Resource::${asFound(stack)}]`, reason },
  );
}

/** As cdk-nag writes `arn:…:ec2:…:*\/*` in its finding, where parts are known only in the account. */
function asFound(stack: Stack): string {
  const part = (value: string, name: string): string =>
    typeof stack.resolve(value) === 'string' ? value : `<AWS::${name}>`;
  const { partition, region, account } = stack;
  return `arn:${part(partition, 'Partition')}:ec2:${part(region, 'Region')}:${part(account, 'AccountId')}:*/*`;
}
