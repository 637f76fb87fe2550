import { CfnResource, type IAspect } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

/** Types on which MiniStack 1.5 ends a deployment. None of them carries data or events. */
const UNKNOWN_TO_EMULATOR: ReadonlySet<string> = new Set([
  'AWS::CloudWatch::CompositeAlarm',
  'AWS::EC2::SecurityGroupIngress',
  'AWS::Events::Archive',
  'AWS::Logs::QueryDefinition',
  'AWS::RDS::DBProxy',
]);

/**
 * An aspect that takes out of a template what the local cloud does not know, and reports a line for each, so that nobody
 * looks for it there.
 */
export function dropUnknownToEmulator(report: (line: string) => void): IAspect {
  return {
    visit(node: IConstruct): void {
      if (!CfnResource.isCfnResource(node) || !UNKNOWN_TO_EMULATOR.has(node.cfnResourceType)) return;
      node.node.scope?.node.tryRemoveChild(node.node.id);
      report(`left out locally: ${node.cfnResourceType} ${node.node.path}`);
    },
  };
}
