import { Token } from 'aws-cdk-lib';
import type { IDatabaseCluster, IDatabaseInstance } from 'aws-cdk-lib/aws-rds';
import type { DatabaseConnection } from './outbox-database.ts';

export interface ConnectionOptions {
  /** Name of the database in it. */
  readonly databaseName: string;
  /** File with its certificate authorities (PEM). Default: those of RDS in the stack's region. */
  readonly certificateAuthorities?: string;
}

/**
 * How functions reach an Aurora cluster or an RDS instance that is there already, or in your stack: as IAM users, over TLS. Turn IAM authentication on there, and let the
 * functions' security groups in.
 *
 * ```ts
 * connection: connectionTo(DatabaseCluster.fromDatabaseClusterAttributes(this, 'Theirs', { … }), { databaseName: 'shop' })
 * ```
 *
 * @throws RangeError for an imported one whose resource id (`cluster-…`, `db-…`) was not given, or whose endpoint was not
 */
export function connectionTo(
  database: IDatabaseCluster | IDatabaseInstance,
  { databaseName: name, certificateAuthorities }: ConnectionOptions,
): DatabaseConnection {
  const { host, port, resourceId } = placeOf(database);
  if (resourceId === undefined) {
    throw new RangeError(
      `${database.node.path}: its resource id is not known, by which IAM lets users in. Give clusterResourceIdentifier or instanceResourceId when you import it.`,
    );
  }
  return {
    host,
    port,
    name,
    auth: { kind: 'iam', resourceId, ...(certificateAuthorities !== undefined && { certificateAuthorities }) },
    database,
  };
}

interface Place {
  readonly host: string;
  readonly port: number;
  readonly resourceId: string | undefined;
}

function placeOf(database: IDatabaseCluster | IDatabaseInstance): Place {
  if ('clusterIdentifier' in database) {
    const { hostname, port } = read(database, () => database.clusterEndpoint);
    return { host: hostname, port, resourceId: read(database, () => database.clusterResourceIdentifier) };
  }
  const { dbInstanceEndpointAddress: host, dbInstanceEndpointPort: port, instanceResourceId: resourceId } = database;
  return { host, port: Token.isUnresolved(port) ? Token.asNumber(port) : Number(port), resourceId };
}

/** An imported cluster throws for what it was not given. */
function read<Value>(database: IDatabaseCluster, property: () => Value): Value {
  try {
    return property();
  } catch (cause) {
    throw new RangeError(`${database.node.path}: ${(cause as Error).message} Nothing was synthesised.`, { cause });
  }
}
