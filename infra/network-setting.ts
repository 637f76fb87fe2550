import { SealedOutboxError } from '../shared/errors/index.ts';
import { jsonObject } from './setting.ts';

/** The network is not described in a way that can be used. Code `NETWORK_SETTING`. */
class NetworkSettingError extends SealedOutboxError {
  constructor(message: string) {
    super('NETWORK_SETTING', `The context value "network" ${message} Nothing was synthesised.`);
  }
}

export interface SubnetSetting {
  readonly id: string;
  /** Availability zone, such as `eu-central-1a`. */
  readonly zone: string;
  /** Its route table, to which a gateway of S3 is added where endpoints are made. */
  readonly routeTable?: string;
}

/** What may be said of the network of stages on AWS. */
export interface NetworkSetting {
  /** A VPC that is there already; without one it is made. */
  readonly existing?: {
    readonly vpcId: string;
    readonly subnets: readonly SubnetSetting[];
    readonly egressSubnets: readonly SubnetSetting[];
    readonly endpoints: boolean;
    readonly endpointSecurityGroup: string | undefined;
    readonly databaseSecurityGroup: string | undefined;
  };
  /** Of a VPC that is made: names of its zones. Default: the region's first ones. */
  readonly zones: readonly string[] | undefined;
  /** Of a VPC that is made: its addresses. */
  readonly cidr: string | undefined;
  /** Of a VPC that is made: whether it has a way out, for the sample's mail. Default: true. */
  readonly egress: boolean;
  /** Of a VPC that is made: gateways of the way out. Default: 1. */
  readonly natGateways: 1 | 2 | 3 | undefined;
  readonly s3PrefixList: string | undefined;
}

const KNOWN = new Set([
  'vpcId',
  'subnets',
  'egressSubnets',
  'endpoints',
  'endpointSecurityGroup',
  'databaseSecurityGroup',
  'zones',
  'cidr',
  'egress',
  'natGateways',
  's3PrefixList',
]);

/**
 * Reads the context value `network`, all of which may be left out:
 *
 * - a new VPC: `{"zones":["eu-central-1a","eu-central-1b"],"cidr":"10.1.0.0/16","egress":true,"natGateways":2,"s3PrefixList":"pl-…"}`
 * - an existing one: `{"vpcId":"vpc-…","subnets":[{"id":"subnet-…","zone":"eu-central-1a","routeTable":"rtb-…"},…],"egressSubnets":[…],
 *   "endpoints":true,"databaseSecurityGroup":"sg-…"}`, or `"endpointSecurityGroup":"sg-…"` where the VPC has endpoints
 *
 * With a database that is there already it must be an existing one, and say which group that database is in: nothing else lets functions reach it.
 *
 * @param context an object from cdk.json, or JSON text from `-c network='…'`
 * @param withDatabase whether the database is there already
 * @throws NetworkSettingError (`NETWORK_SETTING`) naming what is wrong
 */
export function networkSetting(context: unknown, withDatabase = false): NetworkSetting {
  const value = context === undefined || context === '' ? {} : jsonObject(context);
  if (value === undefined) throw new NetworkSettingError('is no JSON object.');
  for (const name of Object.keys(value)) {
    if (!KNOWN.has(name)) throw new NetworkSettingError(`has "${name}", which nothing reads.`);
  }
  const text = (name: string): string | undefined => {
    const found = value[name];
    if (found === undefined || (typeof found === 'string' && found !== '')) return found;
    throw new NetworkSettingError(`has a "${name}" that is no text.`);
  };
  const flag = (name: string, unset: boolean): boolean => {
    const found = value[name] ?? unset;
    if (typeof found === 'boolean') return found;
    throw new NetworkSettingError(`has a "${name}" that is neither true nor false.`);
  };
  const subnets = (name: string): readonly SubnetSetting[] => {
    const found = value[name] ?? [];
    if (Array.isArray(found) && found.every(isSubnet)) return found;
    throw new NetworkSettingError(`has "${name}" that are no list of {"id","zone"}.`);
  };
  const zones = value['zones'];
  if (zones !== undefined && !isZones(zones)) throw new NetworkSettingError('has "zones" that are not 2 or 3 names.');
  const natGateways = gateways(value['natGateways']);
  const egress = flag('egress', true);
  if (!egress && natGateways !== undefined) throw new NetworkSettingError('has "natGateways" and no "egress".');
  const shared = { zones, cidr: text('cidr'), egress, natGateways, s3PrefixList: text('s3PrefixList') };
  const vpcId = text('vpcId');
  if (vpcId === undefined) {
    for (const name of ['subnets', 'egressSubnets', 'endpoints', 'endpointSecurityGroup', 'databaseSecurityGroup']) {
      if (name in value) throw new NetworkSettingError(`has "${name}" but no "vpcId".`);
    }
    if (withDatabase) {
      throw new NetworkSettingError(
        'would make a VPC, from which no way leads to the database that "database" names. Give the "vpcId", "subnets" and "databaseSecurityGroup" of that one.',
      );
    }
    return shared;
  }
  for (const name of ['zones', 'cidr', 'egress', 'natGateways']) {
    if (name in value) throw new NetworkSettingError(`has "${name}", which is for a new VPC, and "vpcId".`);
  }
  const isolated = subnets('subnets');
  const egressSubnets = subnets('egressSubnets');
  const endpoints = flag('endpoints', false);
  if (endpoints && ![...isolated, ...egressSubnets].every(({ routeTable }) => routeTable !== undefined)) {
    throw new NetworkSettingError('makes "endpoints", for which each subnet needs its "routeTable" ("rtb-…").');
  }
  const endpointSecurityGroup = text('endpointSecurityGroup');
  if (endpoints && endpointSecurityGroup !== undefined) {
    throw new NetworkSettingError('makes "endpoints" and names the "endpointSecurityGroup" of others.');
  }
  if (new Set(isolated.map(({ zone }) => zone)).size < 2) {
    throw new NetworkSettingError('needs "subnets" in two zones at least.');
  }
  const databaseSecurityGroup = text('databaseSecurityGroup');
  if (withDatabase && databaseSecurityGroup === undefined) {
    throw new NetworkSettingError(
      'does not say which group lets functions in to the database that "database" names. Give its security group: "databaseSecurityGroup":"sg-…".',
    );
  }
  return {
    ...shared,
    existing: {
      vpcId,
      subnets: isolated,
      egressSubnets,
      endpoints,
      endpointSecurityGroup,
      databaseSecurityGroup,
    },
  };
}

function isSubnet(value: unknown): value is SubnetSetting {
  const { id, zone, routeTable } = (value ?? {}) as Record<string, unknown>;
  const whole = typeof id === 'string' && id.startsWith('subnet-') && typeof zone === 'string' && zone !== '';
  return whole && (routeTable === undefined || (typeof routeTable === 'string' && routeTable.startsWith('rtb-')));
}

function gateways(value: unknown): 1 | 2 | 3 | undefined {
  if (value === undefined || value === 1 || value === 2 || value === 3) return value;
  throw new NetworkSettingError('has "natGateways" that are not 1, 2 or 3.');
}

function isZones(value: unknown): value is readonly string[] {
  return (
    Array.isArray(value) &&
    (value.length === 2 || value.length === 3) &&
    value.every((zone) => typeof zone === 'string' && zone !== '')
  );
}
