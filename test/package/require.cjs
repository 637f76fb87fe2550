// Everything by `require`: events, and a stack.
const { readFileSync } = require('node:fs');
const { App, Duration, Stack } = require('aws-cdk-lib');
const { Template } = require('aws-cdk-lib/assertions');
const scenario = require('./scenario.cjs');

const modules = {
  outbox: require('sealed-outbox'),
  archive: require('sealed-outbox/archive'),
  consumer: require('sealed-outbox/consumer'),
  database: require('sealed-outbox/database'),
  errors: require('sealed-outbox/errors'),
  events: require('sealed-outbox/events'),
  retention: require('sealed-outbox/retention'),
  sealing: require('sealed-outbox/sealing'),
  telemetry: require('sealed-outbox/telemetry'),
  testing: require('sealed-outbox/testing'),
};
const { EventQueue, Outbox, OutboxDatabase } = require('sealed-outbox/infra');

/** Resources by type, and what lies in the code of the migrate function. */
function synthesise(definition) {
  const app = new App({ outdir: 'cdk-require', analyticsReporting: false, builtinCloudFormationValidation: false });
  const stack = new Stack(app, 'Mine');
  const database = new OutboxDatabase(stack, 'Database', {
    connection: { host: '127.0.0.1', port: 5432, name: 'mine', auth: { kind: 'password', password: 'none' } },
    catalogue: definition,
    migrator: 'migrator',
  });
  const shipping = new EventQueue(stack, 'Queue', { consumerTimeout: Duration.seconds(30) });
  new Outbox(stack, 'Outbox', { database, destinations: { shipping } });
  const template = Template.fromStack(stack);
  const count = (type) => Object.keys(template.findResources(type)).length;
  return { functions: count('AWS::Lambda::Function'), queues: count('AWS::SQS::Queue') };
}

async function main() {
  const [{ definition }, generated] = await Promise.all([
    import('./dist/src/catalogue.js'),
    import('./src/validators.generated.js'),
  ]);
  const answer = {
    node: process.versions.node,
    version: JSON.parse(readFileSync(require.resolve('sealed-outbox/package.json'), 'utf8')).version,
    doors: scenario.doors(modules),
    stack: synthesise(definition),
    events: await scenario.appendAndConsume({ ...modules, definition, generated }),
  };
  process.stdout.write(`\n${JSON.stringify(answer)}\n`, () => process.exit());
}

void main();
