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

/** Both stacks of a stage: data, which is kept, and service, which changes with every version. */
export function sealedOutbox(app: App, stage: Stage, database: DatabaseConnection): Installation {
  const name = `sealed-outbox-${stage.name}`;
  const data = new DataStack(app, 'Data', {
    stackName: `${name}-data`,
    description: 'Sealed Outbox: queues, bus and topics',
    terminationProtection: stage.keepsData,
    stage,
  });
  const service = new ServiceStack(app, 'Service', {
    stackName: `${name}-service`,
    description: 'Sealed Outbox: functions, schedules, API and alarms',
    stage,
    database,
    ledgerQueue: data.ledgerQueue,
    analyticsQueue: data.analyticsQueue,
    bus: data.bus,
    alarmTopic: data.alarmTopic,
    archive: data.archive,
  });
  Tags.of(app).add('sealed-outbox:stage', stage.name);
  return { data, service };
}
