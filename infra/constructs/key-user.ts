import type { IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Construct, type IConstruct } from 'constructs';

/** Whom keys are given to: a function, or what stands in for a container. Its role gets rights, and its environment says which vault and key. */
export interface KeyUser extends IConstruct {
  readonly role?: IConstruct | undefined;
  addToRolePolicy(statement: PolicyStatement): void;
  addEnvironment(name: string, value: string): unknown;
}

/** A task of ECS or whatever else has a role: its variables are collected, for whoever starts it. */
export class ContainerUser extends Construct implements KeyUser {
  readonly environment: Record<string, string> = {};
  readonly role: IConstruct | undefined;
  private readonly grantee: IGrantable;

  constructor(scope: Construct, id: string, grantee: IGrantable) {
    super(scope, id);
    this.grantee = grantee;
    this.role = Construct.isConstruct(grantee) ? grantee : undefined;
  }

  /** @throws Error for a principal whose policies cannot be changed, such as a service. CDK lets one pass that was imported as immutable: its rights are then yours to give. */
  addToRolePolicy(statement: PolicyStatement): void {
    const { statementAdded } = this.grantee.grantPrincipal.addToPrincipalPolicy(statement);
    if (statementAdded) return;
    throw new Error(
      `${this.node.path}: what is to get keys has no role whose policies could be changed. Nothing was granted. Give the role of the task.`,
    );
  }

  addEnvironment(name: string, value: string): void {
    this.environment[name] = value;
  }
}
