import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { timeFetches } from '../harness/fetch-under-test.ts';
import { type Figure, quantile } from '../harness/figure.ts';
import { AGGREGATES, BYTES } from '../harness/messages.ts';
import { preload } from '../harness/preload.ts';
import { readLag } from '../../shared/outbox/index.ts';

const HEADS = 200;

async function run(bench: Bench): Promise<Figure[]> {
  const pending = sized(bench, 100_000);
  const blockedRows = sized(bench, 200_000);
  const database = await bench.server.database();
  try {
    const admin = await database.connect('postgres');
    const relay = await database.connect('sealed_relay');
    // Blocked rows first: they are older, so a scan that meets them meets them before all others.
    await preload(admin, { events: blockedRows, aggregates: HEADS, bytes: 10, prefix: 'blocked' });
    await preload(admin, { events: pending, aggregates: AGGREGATES, bytes: BYTES });
    await admin.query('create table away as select * from outbox.delivery limit 0');
    const isBlocked = `aggregate_key in (select outbox.aggregate_key('thing', 'blocked-' || lpad(n::text, 6, '0')) from generate_series(0, ${HEADS - 1}) n)`;
    await admin.query(
      `update outbox.delivery set state = case when sequence = 1 then 'parked' else 'blocked' end::outbox.delivery_state,
              last_error = case when sequence = 1 then 'InvalidMessageContents' end where ${isBlocked}`,
    );
    const measure = async (): Promise<{ p99: number; p50: number; lag: number }> => {
      await admin.query('vacuum analyze outbox.delivery');
      await timeFetches(relay, 10, 500);
      const { client } = await timeFetches(relay, sized(bench, 500), 500);
      const { destinations } = await readLag(admin);
      return { p99: quantile(client, 0.99), p50: quantile(client, 0.5), lag: destinations[0]?.pending ?? Number.NaN };
    };
    const withBlocked = await measure();
    await admin.query(
      `with moved as (delete from outbox.delivery where ${isBlocked} returning *) insert into away overriding system value select * from moved`,
    );
    const without = await measure();
    return [
      {
        name: 'fetch p99 with blocked events',
        value: withBlocked.p99 / without.p99,
        unit: '× without',
        goal: { atMost: 1.2 },
      },
      { name: '  fetch p50', value: withBlocked.p50 / without.p50, unit: '× without' },
      { name: '  fetch p99 without', value: without.p99, unit: 'ms' },
      { name: 'blocked events counted as lag', value: withBlocked.lag - without.lag, unit: '', goal: { atMost: 0 } },
    ];
  } finally {
    await database.drop();
  }
}

export const blocked: Benchmark = {
  name: 'blocked',
  what: '200,000 blocked events behind parked heads: effect on fetch and lag',
  minutes: 1.5,
  run,
};
