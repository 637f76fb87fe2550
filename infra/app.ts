import { App, Aspects, CloudFormationValidatePlugin, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { clearValuesSetting } from './clear-values-setting.ts';
import { databaseSetting } from './database-setting.ts';
import { dropUnknownToEmulator } from './local-template.ts';
import { mailProviderSetting } from './mail-provider-setting.ts';
import { sealedOutbox } from './sealed-outbox.ts';
import { stageNamed } from './stages.ts';

const app = new App({ builtinCloudFormationValidation: false });
const stage = stageNamed(app.node.tryGetContext('stage'));
const database = databaseSetting(stage.name, {
  context: app.node.tryGetContext('database'),
  variable: process.env['SEALED_OUTBOX_DATABASE'],
});
const mailProviderUrl = mailProviderSetting(stage.name, {
  context: app.node.tryGetContext('mailProvider'),
  variable: process.env['SEALED_OUTBOX_MAIL_PROVIDER'],
});
// Without it the policy of the KMS key must be changed before the key can be deleted. The construct says what is wrong with it.
const breakGlassArn: string | undefined = app.node.tryGetContext('breakGlass');
const apiEnvironment = clearValuesSetting(stage.name, app.node.tryGetContext('clearValuesFor'));
sealedOutbox(app, stage, { database, mailProviderUrl, apiEnvironment, breakGlassArn });

if (stage.name === 'local') {
  Aspects.of(app).add(dropUnknownToEmulator((line) => process.stderr.write(`${line}\n`)));
} else {
  // What is acknowledged stands in the template, with its reason, beside the resource.
  const checks = new AwsSolutionsChecks(app, { writeSuppressionsToCloudFormation: true });
  // Not locally: two seconds, which every `npm start` would wait for, and the other stages' templates hold all that those do.
  Validations.of(app).addPlugins(new CloudFormationValidatePlugin(), checks);
}
