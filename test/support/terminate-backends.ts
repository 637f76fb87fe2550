/**
 * Ends every connection with an application name, and waits until the server has none. Arguments: connection string of a superuser,
 * application name. A process of its own, so that a test can wait for it without running its event loop: as if it were frozen.
 */
import pg from 'pg';

const [connectionString, applicationName] = process.argv.slice(2);
const client = new pg.Client({ connectionString });
await client.connect();
await client.query('select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1', [
  applicationName,
]);
for (let left = 1; left > 0;) {
  const { rows } = await client.query('select count(*)::int as n from pg_stat_activity where application_name = $1', [
    applicationName,
  ]);
  left = (rows[0] as { n: number }).n;
}
await client.end();
