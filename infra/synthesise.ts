import { App, Aspects, CloudFormationValidatePlugin, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { givenFrom } from './given.ts';
import { dropUnknownToEmulator } from './local-template.ts';
import { sealedOutbox } from './sealed-outbox.ts';
import { stageNamed } from './stages.ts';

/**
 * Both stacks of the stage that the context names, with what checks them: AWS Solutions (cdk-nag) always, except for the local stage; with
 * `-c validate=cloudformation` CloudFormation's own rules too. These take longer than all the rest (5 s of processor time), so only what decides asks
 * for them: `npm run deploy` and `npm run check`.
 */
export function synthesise(): void {
  const app = new App({ builtinCloudFormationValidation: false });
  const context = (name: string): unknown => app.node.tryGetContext(name);
  const stage = stageNamed(context('stage'));
  sealedOutbox(app, stage, givenFrom(stage, context, process.env));
  if (stage.name === 'local') {
    // The other stages' templates hold all that this one does, and are checked.
    Aspects.of(app).add(dropUnknownToEmulator((line) => process.stderr.write(`${line}\n`)));
    return;
  }
  const validations = Validations.of(app);
  // What is acknowledged stands in the template, with its reason, beside the resource.
  validations.addPlugins(new AwsSolutionsChecks(app, { writeSuppressionsToCloudFormation: true }));
  if (context('validate') === 'cloudformation') validations.addPlugins(new CloudFormationValidatePlugin());
}
