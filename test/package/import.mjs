// Everything by `import`, and the example's own code: Kysely's transaction, its consumer.
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import * as outbox from 'sealed-outbox';
import * as archive from 'sealed-outbox/archive';
import * as consumer from 'sealed-outbox/consumer';
import * as database from 'sealed-outbox/database';
import * as errors from 'sealed-outbox/errors';
import * as events from 'sealed-outbox/events';
import * as retention from 'sealed-outbox/retention';
import * as sealing from 'sealed-outbox/sealing';
import * as telemetry from 'sealed-outbox/telemetry';
import * as testing from 'sealed-outbox/testing';
import { definition } from './dist/src/catalogue.js';
import { placePurchase } from './dist/src/place-purchase.js';
import { shopDatabase } from './dist/src/shop-database.js';
import * as generated from './src/validators.generated.js';
import scenario from './scenario.cjs';

const { port, name, password } = JSON.parse(process.env.TEST_DATABASE);

/** The example: two purchases, of which one breaks a rule of the table, and so has no event; one parcel. */
async function shop() {
  const at = { host: '127.0.0.1', port, database: name, password };
  const db = shopDatabase(new pg.Pool({ ...at, user: 'sealed_writer', max: 1 }));
  const purchase = { id: randomUUID(), customerId: randomUUID(), items: 3 };
  const sequence = await placePurchase(db, purchase);
  const again = await placePurchase(db, purchase).catch(({ code }) => code);
  await db.destroy();
  const messages = [];
  await scenario.relay(outbox, 'shipping', messages);
  Object.assign(process.env, {
    DATABASE_HOST: at.host,
    DATABASE_PORT: String(port),
    DATABASE_NAME: name,
    DATABASE_USER: 'sealed_analytics',
    DATABASE_AUTH: 'password',
    DATABASE_PASSWORD: password,
  });
  const { handler } = await import('./dist/src/shipping.js');
  const batch = scenario.batchOf(messages);
  await handler(batch, testing.lambdaContext());
  await handler(batch, testing.lambdaContext());
  const reader = new pg.Client({ ...at, user: 'sealed_analytics' });
  await reader.connect();
  const { rows } = await reader.query('select items from shop.parcel where purchase_id = $1', [purchase.id]);
  await reader.end();
  return { sequence: String(sequence), again, parcels: rows };
}

const modules = { outbox, archive, consumer, database, errors, events, retention, sealing, telemetry, testing };
const answer = {
  node: process.versions.node,
  doors: scenario.doors(modules),
  shop: await shop(),
  events: await scenario.appendAndConsume({ ...modules, definition, generated }),
};
process.stdout.write(`\n${JSON.stringify(answer)}\n`, () => process.exit());
