import { emfMetrics, eventConsumer } from 'sealed-outbox/consumer';
import { createPool, databaseConfig, poolSize } from 'sealed-outbox/database';
import { shipping } from './catalogue.ts';
import { catalogue } from './events.ts';
import { log } from './log.ts';
import { handlers } from './shipping-handlers.ts';

const { OUTBOX_INSTALLATION = 'shop' } = process.env;

export const handler = eventConsumer({
  ...shipping,
  catalogue,
  handlers,
  pool: createPool(databaseConfig(process.env), { max: poolSize(process.env), applicationName: shipping.name, log }),
  log,
  metrics: emfMetrics({
    dimensions: { Installation: OUTBOX_INSTALLATION },
    write: (line) => process.stdout.write(`${line}\n`),
    now: Date.now,
  }),
});
