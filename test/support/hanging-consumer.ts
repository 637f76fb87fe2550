/**
 * A function whose handler writes its effect and then never ends; the parent kills it, as Lambda does at a time-out.
 * Arguments: database settings, one message body, both JSON. Prints a line when the handler hangs.
 */
import { createPool, type DatabaseConfig } from '../../shared/database/index.ts';
import { eventConsumer } from '../../shared/inbox/index.ts';
import { noMetrics, silentLog } from '../../shared/telemetry/index.ts';
import { effectHandler } from './counter-consumer.ts';
import { counterCatalogue } from './counter-events.ts';
import { fifoRecord, invoke } from './sqs-batch.ts';

const [config, body] = process.argv.slice(2).map((argument) => JSON.parse(argument) as unknown);

const handler = eventConsumer({
  name: 'killed',
  mode: 'strict',
  startingPoint: 'beginning',
  destination: 'all',
  catalogue: counterCatalogue,
  pool: createPool(config as DatabaseConfig, { max: 1, applicationName: 'killed', log: silentLog }),
  log: silentLog,
  metrics: noMetrics,
  handlers: {
    'counter.added': async (event, context) => {
      await effectHandler('killed')(event, context);
      process.stdout.write('the handler hangs\n');
      await new Promise(() => {});
    },
  },
});

await invoke(handler, [fifoRecord('a', body as string)]);
