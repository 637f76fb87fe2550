import type { Environment } from 'aws-cdk-lib';
import { SealedOutboxError } from '../shared/errors/index.ts';
import { clearValuesSetting } from './clear-values-setting.ts';
import { databaseSetting } from './database-setting.ts';
import { mailProviderSetting } from './mail-provider-setting.ts';
import { networkSetting } from './network-setting.ts';
import { restoredClusterSetting } from './restored-cluster-setting.ts';
import type { Given } from './sealed-outbox.ts';
import type { Stage } from './stages.ts';

/** A context value cannot be used. Code `SETTING`. */
class SettingError extends SealedOutboxError {
  constructor(name: string, remedy: string) {
    super('SETTING', `The context value "${name}" cannot be used: nothing was synthesised. ${remedy}`);
  }
}

/**
 * Everything that an installation is given from outside, out of context values (`-c name=value` or cdk.json) and variables:
 * `database`, `restoredCluster`, `network`, `mailProvider`, `migrations` (`trigger` or `manual`), `clearValuesFor`, `breakGlass`, `account` and `region`.
 *
 * @throws SealedOutboxError naming the value and what to give
 */
export function givenFrom(
  stage: Stage,
  context: (name: string) => unknown,
  variables: Readonly<Record<string, string | undefined>>,
): Given {
  const database = databaseSetting(stage.name, {
    context: context('database'),
    variable: variables['SEALED_OUTBOX_DATABASE'],
  });
  const network = context('network');
  // A database that is there already may be reached without a VPC; one that is made lies in one.
  const placed = stage.network !== undefined && (database === undefined || network !== undefined);
  return {
    database,
    restoredCluster: restoredClusterSetting(context('restoredCluster'), placed && database === undefined),
    network: placed ? networkSetting(network, database !== undefined) : undefined,
    mailProviderUrl: mailProviderSetting(stage.name, {
      context: context('mailProvider'),
      variable: variables['SEALED_OUTBOX_MAIL_PROVIDER'],
    }),
    apiEnvironment: clearValuesSetting(stage.name, context('clearValuesFor')),
    // Without it the policy of the KMS key must be changed before the key can be deleted.
    breakGlassArn: breakGlass(context('breakGlass')),
    migrations: migrations(context('migrations')),
    env: environment(context('account'), context('region')),
  };
}

function migrations(value: unknown): 'trigger' | 'manual' {
  if (value === undefined || value === 'trigger') return 'trigger';
  if (value === 'manual') return value;
  throw new SettingError('migrations', 'Give trigger or manual.');
}

function breakGlass(value: unknown): string | undefined {
  if (value === undefined || value === '') return undefined;
  // The construct says what is wrong with the name.
  if (typeof value === 'string') return value;
  throw new SettingError('breakGlass', 'Give the ARN of one role or user.');
}

function environment(account: unknown, region: unknown): Environment {
  // From cdk.json a number is a number.
  const digits = typeof account === 'number' ? String(account) : account;
  if (digits !== undefined && !(typeof digits === 'string' && /^\d{12}$/.test(digits))) {
    throw new SettingError('account', 'Give the twelve digits of an AWS account, as a text.');
  }
  if (region !== undefined && !(typeof region === 'string' && /^[a-z]{2}(-[a-z]+)+-\d$/.test(region))) {
    throw new SettingError('region', 'Give the name of a region, such as eu-central-1.');
  }
  return { ...(digits !== undefined && { account: digits }), ...(region !== undefined && { region }) };
}
