import { App } from 'aws-cdk-lib';
import { databaseSetting } from './database-setting.ts';
import { sealedOutbox } from './sealed-outbox.ts';
import { stageNamed } from './stages.ts';

const app = new App();
const stage = stageNamed(app.node.tryGetContext('stage'));
const database = databaseSetting(stage.name, {
  context: app.node.tryGetContext('database'),
  variable: process.env['SEALED_OUTBOX_DATABASE'],
});
sealedOutbox(app, stage, database);
