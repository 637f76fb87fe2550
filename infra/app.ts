import { App, Aspects, CloudFormationValidatePlugin, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { givenFrom } from './given.ts';
import { dropUnknownToEmulator } from './local-template.ts';
import { sealedOutbox } from './sealed-outbox.ts';
import { stageNamed } from './stages.ts';

const app = new App({ builtinCloudFormationValidation: false });
const context = (name: string): unknown => app.node.tryGetContext(name);
const stage = stageNamed(context('stage'));
sealedOutbox(app, stage, givenFrom(stage, context, process.env));

if (stage.name === 'local') {
  Aspects.of(app).add(dropUnknownToEmulator((line) => process.stderr.write(`${line}\n`)));
} else {
  // What is acknowledged stands in the template, with its reason, beside the resource.
  const checks = new AwsSolutionsChecks(app, { writeSuppressionsToCloudFormation: true });
  // Not locally: two seconds, which every `npm start` would wait for, and the other stages' templates hold all that those do.
  Validations.of(app).addPlugins(new CloudFormationValidatePlugin(), checks);
}
