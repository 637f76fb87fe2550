import { Stack } from 'aws-cdk-lib';
import { CfnSecurityGroupEgress, CfnSecurityGroupIngress, type ISecurityGroup } from 'aws-cdk-lib/aws-ec2';
import { CfnDBCluster, CfnDBInstance, type IDatabaseCluster, type IDatabaseInstance } from 'aws-cdk-lib/aws-rds';
import { Dependable, type IConstruct, type IDependable } from 'constructs';

/**
 * What must be there before `clients` can connect: the instances, for an endpoint is known minutes before anything answers at it, and the rules between the groups.
 *
 * Only the rules of `clients`: one for the group of a function that itself waits for the migration would close a circle. Looked up when the app is
 * synthesised, since rules may be added after the outbox.
 */
export function readinessOf(
  database: IDatabaseCluster | IDatabaseInstance,
  clients: readonly ISecurityGroup[],
): IDependable {
  const ready: IDependable = {};
  Dependable.implement(ready, {
    get dependencyRoots() {
      return rootsOf(database, clients);
    },
  });
  return ready;
}

function rootsOf(database: IDatabaseCluster | IDatabaseInstance, clients: readonly ISecurityGroup[]): IConstruct[] {
  const servers = database.node.findAll().filter((it) => it instanceof CfnDBInstance || it instanceof CfnDBCluster);
  const groups = database.connections.securityGroups;
  const ids = (of: readonly ISecurityGroup[]) => new Set(of.map((group) => textOf(group, group.securityGroupId)));
  const [ofDatabase, ofClients] = [ids(groups), ids(clients)];
  const rules = [...groups, ...clients]
    .flatMap((group) => group.node.findAll())
    .filter((it) => {
      if (it instanceof CfnSecurityGroupIngress) return ofClients.has(textOf(it, it.sourceSecurityGroupId));
      if (it instanceof CfnSecurityGroupEgress) return ofDatabase.has(textOf(it, it.destinationSecurityGroupId));
      return false;
    });
  return [...servers, ...rules];
}

/** Of an id that is known to CloudFormation alone. Undefined: never equal to one. */
function textOf(scope: IConstruct, id: string | undefined): string {
  return JSON.stringify(Stack.of(scope).resolve(id)) ?? '';
}
