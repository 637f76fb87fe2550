import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { App } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { givenFrom } from '../../infra/given.ts';
import { sealedOutbox } from '../../infra/sealed-outbox.ts';
import { type StageName, stages } from '../../infra/stages.ts';

export const ROOT = join(import.meta.dirname, '../..');

/** CloudFormation's own shapes, which a test asserts on. */
// oxlint-disable-next-line typescript/no-explicit-any -- as deep and as free as JSON
type Properties = Readonly<Record<string, any>>;

export interface Resource {
  readonly Properties: Properties;
  readonly DeletionPolicy?: string;
  readonly UpdateReplacePolicy?: string;
  readonly DependsOn?: readonly string[];
}

export interface Synthesised {
  readonly data: Template;
  readonly service: Template;
  /** Resources of both stacks by logical id. */
  readonly resources: (type: string) => [id: string, resource: Resource][];
  /** The function whose log lines carry this name. */
  readonly functionNamed: (name: string) => [id: string, resource: Resource];
}

const context = (JSON.parse(readFileSync(join(ROOT, 'cdk.json'), 'utf8')) as { context: object }).context;

/** An app with the project's feature flags that bundles nothing: templates do not depend on it, and it takes seconds. */
export function emptyApp(): App {
  return new App({
    context: { ...context, 'aws:cdk:bundling-stacks': [] },
    builtinCloudFormationValidation: false,
    analyticsReporting: false,
  });
}

/** The variables of a function; none for CDK's own. */
export function variablesOf({ Properties }: Resource): Properties {
  return Properties['Environment']?.Variables ?? {};
}

/** A database that is there already, as somebody would give it for stages on AWS. */
export function awsDatabase(): Record<string, unknown> {
  return {
    host: 'db.example.com',
    port: 5432,
    name: 'outbox',
    resourceId: 'cluster-EXAMPLE',
    // Any file: nothing reads it before a function connects.
    certificateAuthorities: join(ROOT, 'LICENSE'),
  };
}

export const LOCAL_PASSWORD = 'password-of-the-local-database';

const LOCAL_DATABASE = JSON.stringify({ host: '127.0.0.1', port: 5432, name: 'outbox', password: LOCAL_PASSWORD });

/**
 * Both templates of a stage, as `cdk synth` makes them, without bundles.
 *
 * @param context what `-c` says, beside the stage
 */
export function synthesise(
  stage: StageName,
  app = emptyApp(),
  context: Readonly<Record<string, unknown>> = {},
): Synthesised {
  const mailProvider = 'https://mail.example.com';
  const given = givenFrom(stages[stage], (name) => ({ mailProvider, ...context })[name], {
    SEALED_OUTBOX_DATABASE: LOCAL_DATABASE,
    SEALED_OUTBOX_MAIL_PROVIDER: mailProvider,
  });
  const stacks = sealedOutbox(app, stages[stage], given);
  const data = Template.fromStack(stacks.data);
  const service = Template.fromStack(stacks.service);
  const resources: Synthesised['resources'] = (type) =>
    [data, service].flatMap((template) => Object.entries(template.findResources(type) as Record<string, Resource>));
  return {
    data,
    service,
    resources,
    functionNamed: (name) => {
      const found = resources('AWS::Lambda::Function').find(
        ([, fn]) => variablesOf(fn)['POWERTOOLS_SERVICE_NAME'] === name,
      );
      if (found === undefined) throw new Error(`no function ${name}`);
      return found;
    },
  };
}
