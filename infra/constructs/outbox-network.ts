import { Fn, Stack } from 'aws-cdk-lib';
import {
  type CfnSecurityGroup,
  FlowLogDestination,
  FlowLogTrafficType,
  GatewayVpcEndpoint,
  GatewayVpcEndpointAwsService,
  InterfaceVpcEndpoint,
  InterfaceVpcEndpointAwsService,
  IpAddresses,
  type ISecurityGroup,
  type ISubnet,
  type IVpc,
  Peer,
  Port,
  SecurityGroup,
  SubnetType,
  Vpc,
} from 'aws-cdk-lib/aws-ec2';
import { AnyPrincipal, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { FunctionNetwork } from './function-network.ts';

export interface OutboxNetworkProps {
  /** Availability zones of the subnets, 2 or 3: Aurora wants two at least. Default: 2. */
  readonly zones?: 2 | 3;
  /**
   * Zones in which functions run and endpoints have an interface, the first ones; an endpoint is paid for by the hour in each. Default: all.
   */
  readonly functionZones?: 1 | 2 | 3;
  /** Address range of the VPC. Default: `10.0.0.0/16`. */
  readonly cidr?: string;
  /**
   * Adds subnets with a way out to the internet, for functions that call somebody else's HTTP API. Nothing else is put there. Default: false.
   */
  readonly egress?: boolean;
  /**
   * NAT gateways of that way out, each in a zone of its own and paid for by the hour. Default: 1. When its zone is away such calls wait in their queue
   * and nothing else does; as many as `functionZones` spare them that.
   */
  readonly natGateways?: 1 | 2 | 3;
  /**
   * Id of the region's managed prefix list of S3 (`aws ec2 describe-managed-prefix-lists`), which CloudFormation cannot look up. With it functions that use S3
   * may send to its addresses only; without it to any address that is routed, which in an isolated subnet is S3's as well. Default: none.
   */
  readonly s3PrefixList?: string;
  /** How long records of refused connections are kept. Default: one month. */
  readonly logRetention?: RetentionDays;
  /** A VPC of yours instead of a new one. */
  readonly existing?: ExistingNetwork;
}

/** A VPC that is there already. Nothing is changed in it; security groups are added. */
export interface ExistingNetwork {
  readonly vpc: IVpc;
  /** In two zones at least, without a way in from the internet. */
  readonly subnets: readonly ISubnet[];
  /** Subnets with a way out, for functions that call somebody else's HTTP API. Default: none. */
  readonly egressSubnets?: readonly ISubnet[];
  /**
   * Whether endpoints are made for what functions call. The VPC must not have them yet: a second one would claim the same
   * names. Default: false, the VPC reaches SQS, EventBridge, KMS and S3 in its own way.
   */
  readonly endpoints?: boolean;
  /**
   * Security group of the endpoints that the VPC has: functions are let in, and may send there and to the database only. Default: none, and without `endpoints`
   * functions may send to any address on port 443, for only the VPC knows where SQS, EventBridge and KMS are.
   */
  readonly endpointGroup?: ISecurityGroup;
  /** Security group of the database that is there already: functions are let in. Default: none. */
  readonly databaseGroup?: ISecurityGroup;
  /** Where that database listens. Default: 5432. */
  readonly databasePort?: number;
}

/** What functions call from inside the VPC. Lambda itself polls queues, writes logs and takes metrics from them: that passes by the VPC. */
const SERVICES = {
  Sqs: InterfaceVpcEndpointAwsService.SQS,
  Events: InterfaceVpcEndpointAwsService.EVENTBRIDGE,
  Kms: InterfaceVpcEndpointAwsService.KMS,
} as const;

const HTTPS = Port.tcp(443);

/** Matches nothing, as CDK's own rule of a group that may send nowhere. */
const NOWHERE: CfnSecurityGroup.EgressProperty = {
  ipProtocol: 'icmp',
  fromPort: 252,
  toPort: 86,
  cidrIp: '255.255.255.255/32',
  description: 'Nowhere but where the rules beside say',
};

/**
 * A VPC without a way in or out: isolated subnets for the database and the functions, endpoints for the AWS services that functions
 * call, and security groups that open nothing else.
 */
export class OutboxNetwork extends Construct {
  readonly vpc: IVpc;
  /** For the database: isolated, in every zone. */
  readonly subnets: readonly ISubnet[];
  /** For functions: they reach the database, SQS, EventBridge and KMS. */
  readonly functions: FunctionNetwork;
  /** For functions that also use S3: those that are given keys with a log of erasures, and those with an archive. */
  readonly functionsWithS3: FunctionNetwork;
  /** For functions that also reach the internet; none where the network has no such subnets. */
  readonly functionsWithEgress: FunctionNetwork | undefined;

  constructor(scope: Construct, id: string, props: OutboxNetworkProps = {}) {
    super(scope, id);
    const { zones = 2, functionZones = zones, existing, s3PrefixList, natGateways = 1 } = props;
    if (natGateways > zones) {
      throw new RangeError(`${this.node.path}: natGateways is ${natGateways}, and there are ${zones} zones.`);
    }
    const { vpc, subnets, egressSubnets = [] } = existing ?? this.create({ ...props, zones });
    this.vpc = vpc;
    this.subnets = subnets;
    const inZones = existing === undefined ? functionZones : Infinity;
    const functionSubnets = subnets.slice(0, inZones);

    const functionGroup = this.group('Functions', 'Functions: to the database and to endpoints');
    this.functions = { vpc, subnets: functionSubnets, securityGroups: [functionGroup] };
    const s3Group = this.group('S3Functions', 'Functions that also use S3');
    allowS3(s3Group, s3PrefixList);
    this.functionsWithS3 = { ...this.functions, securityGroups: [functionGroup, s3Group] };
    const groups = [functionGroup];
    if (egressSubnets.length > 0) {
      const egressGroup = this.group('EgressFunctions', 'Functions that also call HTTP APIs on the internet');
      egressGroup.addEgressRule(Peer.anyIpv4(), HTTPS, 'HTTP APIs on the internet');
      this.functionsWithEgress = {
        vpc,
        subnets: egressSubnets.slice(0, inZones),
        securityGroups: [egressGroup],
      };
      groups.push(egressGroup);
    }
    const makesEndpoints = existing?.endpoints ?? existing === undefined;
    if (makesEndpoints) this.addEndpoints(functionSubnets, groups);
    else if (existing?.endpointGroup !== undefined) useEndpoints(existing.endpointGroup, groups);
    if (makesEndpoints || existing?.endpointGroup !== undefined) onlyTo(functionGroup, NOWHERE);
    else functionGroup.addEgressRule(Peer.anyIpv4(), HTTPS, 'AWS services, where the VPC has them');
    for (const group of groups) {
      if (existing?.databaseGroup === undefined) break;
      existing.databaseGroup.connections.allowFrom(group, Port.tcp(existing.databasePort ?? 5432), 'Functions');
    }
  }

  private create({
    zones,
    cidr,
    egress,
    natGateways = 1,
    logRetention,
  }: OutboxNetworkProps & { readonly zones: number }) {
    const vpc = new Vpc(this, 'Vpc', {
      ipAddresses: IpAddresses.cidr(cidr ?? '10.0.0.0/16'),
      maxAzs: zones,
      // A third zone can come later without moving the subnets that there are.
      reservedAzs: 3 - zones,
      natGateways: egress === true ? natGateways : 0,
      subnetConfiguration: [
        { name: 'Isolated', subnetType: SubnetType.PRIVATE_ISOLATED, cidrMask: 22 },
        ...(egress === true
          ? [
              { name: 'Nat', subnetType: SubnetType.PUBLIC, cidrMask: 28, mapPublicIpOnLaunch: false },
              { name: 'Egress', subnetType: SubnetType.PRIVATE_WITH_EGRESS, cidrMask: 24 },
            ]
          : []),
      ],
    });
    vpc.addFlowLog('FlowLog', {
      destination: FlowLogDestination.toCloudWatchLogs(
        new LogGroup(this, 'FlowLogs', { retention: logRetention ?? RetentionDays.ONE_MONTH }),
        new Role(this, 'FlowLogRole', {
          assumedBy: new ServicePrincipal('vpc-flow-logs.amazonaws.com', {
            conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(this).account } },
          }),
          description: 'Writes down what the VPC refuses',
        }),
      ),
      // What was refused tells of a wrong rule or of somebody who looks around; all of it would cost more than the VPC.
      trafficType: FlowLogTrafficType.REJECT,
    });
    return { vpc, subnets: vpc.isolatedSubnets, egressSubnets: vpc.privateSubnets };
  }

  private addEndpoints(subnets: readonly ISubnet[], callers: readonly SecurityGroup[]): void {
    const { vpc } = this;
    const { account } = Stack.of(this);
    const ofAccount = { StringEquals: { 'aws:PrincipalAccount': account } };
    const group = this.group('Endpoints', 'Endpoints of AWS services: from functions');
    useEndpoints(group, callers);
    for (const [name, service] of Object.entries(SERVICES)) {
      const endpoint = new InterfaceVpcEndpoint(this, name, {
        vpc,
        service,
        subnets: { subnets: [...subnets] },
        securityGroups: [group],
        open: false,
      });
      endpoint.addToPolicy(statement(ofAccount));
    }
    const s3 = new GatewayVpcEndpoint(this, 'S3', {
      vpc,
      service: GatewayVpcEndpointAwsService.S3,
      subnets: [{ subnets: [...subnets, ...(this.functionsWithEgress?.subnets ?? [])] }],
    });
    // With the keys of another account nothing can be carried off through it, and with ours not into a bucket of another account.
    s3.addToPolicy(statement({ StringEquals: { ...ofAccount.StringEquals, 'aws:ResourceAccount': account } }));
  }

  private group(id: string, description: string): SecurityGroup {
    return new SecurityGroup(this, id, { vpc: this.vpc, description, allowAllOutbound: false });
  }
}

function useEndpoints(group: ISecurityGroup, callers: readonly SecurityGroup[]): void {
  for (const caller of callers) {
    group.addIngressRule(caller, HTTPS, 'Functions');
    caller.addEgressRule(group, HTTPS, 'Endpoints of AWS services');
  }
}

/**
 * A rule in the group itself. CDK makes a resource of its own of a rule that names another group or a prefix list, and a group without any rule of its own is open to
 * everywhere.
 */
function onlyTo(group: SecurityGroup, rule: CfnSecurityGroup.EgressProperty): void {
  (group.node.defaultChild as CfnSecurityGroup).securityGroupEgress = [rule];
}

function allowS3(group: SecurityGroup, prefixList: string | undefined): void {
  const description = 'S3 through its gateway';
  if (prefixList === undefined) {
    group.addEgressRule(Peer.anyIpv4(), HTTPS, description);
    return;
  }
  onlyTo(group, { ipProtocol: 'tcp', fromPort: 443, toPort: 443, destinationPrefixListId: prefixList, description });
}

function statement(conditions: Record<string, Record<string, string>>): PolicyStatement {
  return new PolicyStatement({ principals: [new AnyPrincipal()], actions: ['*'], resources: ['*'], conditions });
}

/** The first zones of a region, by name only in the account: no look-up, and as many as asked for where CDK assumes two. */
export function firstZones(count: number): string[] {
  return Array.from({ length: count }, (_, index) => Fn.select(index, Fn.getAzs()));
}
