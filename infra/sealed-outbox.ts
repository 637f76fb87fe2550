import type { App } from 'aws-cdk-lib';
import { Tags } from 'aws-cdk-lib';
import type { DatabaseConnection } from './index.ts';
import { DataStack } from './stacks/data-stack.ts';
import { ServiceStack } from './stacks/service-stack.ts';
import type { Stage } from './stages.ts';

export interface Installation {
  readonly data: DataStack;
  readonly service: ServiceStack;
}

/** What an installation is given from outside. */
export interface Given {
  readonly database: DatabaseConnection;
  /** Where the sample's mails are sent to, without a slash at the end. */
  readonly mailProviderUrl: string;
  /** What the sample API is told about its callers. */
  readonly apiEnvironment: Readonly<Record<string, string>>;
  /** ARN of the role or user that alone may disable or delete the KMS key. Undefined: nobody. */
  readonly breakGlassArn?: string | undefined;
}

/** Both stacks of a stage: data, which is kept, and service, which changes with every version. */
export function sealedOutbox(
  app: App,
  stage: Stage,
  { database, mailProviderUrl, apiEnvironment, breakGlassArn }: Given,
): Installation {
  const name = `sealed-outbox-${stage.name}`;
  const data = new DataStack(app, 'Data', {
    stackName: `${name}-data`,
    description: 'Sealed Outbox: queues, bus, topics, keys',
    terminationProtection: stage.keepsData,
    stage,
    breakGlassArn,
  });
  const service = new ServiceStack(app, 'Service', {
    stackName: `${name}-service`,
    description: 'Sealed Outbox: functions, schedules, API and alarms',
    stage,
    database,
    ledgerQueue: data.ledgerQueue,
    analyticsQueue: data.analyticsQueue,
    notificationsQueue: data.notificationsQueue,
    bus: data.bus,
    mailProviderUrl,
    apiEnvironment,
    alarmTopic: data.alarmTopic,
    keys: data.keys,
    archive: data.archive,
  });
  Tags.of(app).add('sealed-outbox:stage', stage.name);
  return { data, service };
}
