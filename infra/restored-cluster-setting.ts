import { SealedOutboxError } from '../shared/errors/index.ts';
import { jsonObject } from './setting.ts';

/** A cluster that was made out of the stage's own: from a backup, or by a blue/green deployment. */
export interface RestoredCluster {
  /** Its writer's endpoint. */
  readonly host: string;
  /** `DbClusterResourceId`. */
  readonly resourceId: string;
}

/** The context value `restoredCluster` cannot be used. Code `RESTORED_CLUSTER_SETTING`. */
class RestoredClusterSettingError extends SealedOutboxError {
  constructor(message: string) {
    super('RESTORED_CLUSTER_SETTING', `The context value "restoredCluster" ${message} Nothing was synthesised.`);
  }
}

/**
 * The cluster that functions connect to in place of the one in the data stack, which stays there with its network: `-c
 * restoredCluster='{"host","resourceId"}'`. Undefined: that one.
 *
 * @param makesCluster whether the data stack has one of its own
 * @throws RestoredClusterSettingError (`RESTORED_CLUSTER_SETTING`)
 */
export function restoredClusterSetting(context: unknown, makesCluster: boolean): RestoredCluster | undefined {
  if (context === undefined || context === '') return undefined;
  if (!makesCluster) {
    throw new RestoredClusterSettingError(
      'takes the place of the cluster in the data stack, and this stage has none: give the new one as "database".',
    );
  }
  const { host, resourceId } = jsonObject(context) ?? {};
  if (typeof host !== 'string' || !/^[a-z][a-z0-9-]*\.cluster-[a-z0-9]+\.[a-z0-9.-]+$/.test(host)) {
    throw new RestoredClusterSettingError(
      'has no "host" of the form name.cluster-….region.rds.amazonaws.com: give the endpoint of the writer.',
    );
  }
  if (typeof resourceId !== 'string' || !/^cluster-[A-Z0-9]+$/.test(resourceId)) {
    throw new RestoredClusterSettingError('has no "resourceId" of the form cluster-…: give its DbClusterResourceId.');
  }
  return { host, resourceId };
}
