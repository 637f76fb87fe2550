import type { Queryable } from '../../shared/database/index.ts';
import { readHeldLag } from '../../shared/inbox/index.ts';
import { readDatabaseAge, readLag } from '../../shared/outbox/index.ts';
import type { Log, Metrics } from '../../shared/telemetry/index.ts';

/**
 * One look at the outbox, as metrics: `OldestPendingAge` (Seconds), `Pending`, `Parked`, `Blocked`, `Orphaned` (Count), each by `Destination`;
 * `Unroutable` (Count), all that waits at destinations that the catalogue has no more; and `RelaySilence` (Seconds), which has no value
 * while there never was a relay.
 *
 * @throws what the query throws: nothing is reported then, and the alarms take missing data for a breach.
 */
export async function probe(db: Queryable, { log, metrics }: { log: Log; metrics: Metrics }): Promise<void> {
  const lag = await readLag(db);
  let unroutable = 0;
  for (const {
    destination,
    retired,
    oldestPendingAgeSeconds,
    pending,
    parked,
    blocked,
    orphaned,
  } of lag.destinations) {
    const at = { Destination: destination };
    metrics.add('OldestPendingAge', 'Seconds', oldestPendingAgeSeconds, at);
    metrics.add('Pending', 'Count', pending, at);
    metrics.add('Parked', 'Count', parked, at);
    metrics.add('Blocked', 'Count', blocked, at);
    metrics.add('Orphaned', 'Count', orphaned, at);
    if (retired) unroutable += pending + parked + blocked;
  }
  metrics.add('Unroutable', 'Count', unroutable);
  if (lag.relaySilenceSeconds !== null) metrics.add('RelaySilence', 'Seconds', lag.relaySilenceSeconds);
  if (lag.destinations.length === 0) log.warn('the outbox has no destination: no catalogue is installed');
  log.debug('probed the outbox', { ...lag });
}

/**
 * One look at what consumers hold, as metrics by `Consumer`: `HeldEvents` (Count), and `OldestHeldAge` (Seconds), by what they wait for
 * (`WaitsFor`): a `person`, or their `turn`.
 *
 * @throws what the query throws; nothing is reported then
 */
export async function probeHeld(db: Queryable, { log, metrics }: { log: Log; metrics: Metrics }): Promise<void> {
  const lag = await readHeldLag(db);
  for (const { consumer, held, oldestForPersonSeconds, oldestForTurnSeconds } of lag) {
    const of = { Consumer: consumer };
    metrics.add('HeldEvents', 'Count', held, of);
    metrics.add('OldestHeldAge', 'Seconds', oldestForPersonSeconds, { ...of, WaitsFor: 'person' });
    metrics.add('OldestHeldAge', 'Seconds', oldestForTurnSeconds, { ...of, WaitsFor: 'turn' });
  }
  log.debug('probed the inbox', { consumers: lag });
}

/**
 * One look at the database itself, as metrics: `OldestTransactionAge` (Seconds), `SnapshotAge` and `TransactionIdAge` (Count, of transactions),
 * `ConnectionsUsed` (Percent). The first two have no value where the database does not let the monitor see other sessions' times.
 *
 * @throws what the query throws; nothing is reported then
 */
export async function probeDatabase(db: Queryable, { log, metrics }: { log: Log; metrics: Metrics }): Promise<void> {
  const age = await readDatabaseAge(db);
  metrics.add('TransactionIdAge', 'Count', age.transactionIdAge);
  metrics.add('ConnectionsUsed', 'Percent', age.connectionsUsed);
  if (age.oldestTransactionSeconds === null || age.snapshotAge === null) {
    log.warn('how old other transactions are is not shown to the monitor: grant pg_read_all_stats to outbox_observer');
  } else {
    metrics.add('OldestTransactionAge', 'Seconds', age.oldestTransactionSeconds);
    metrics.add('SnapshotAge', 'Count', age.snapshotAge);
  }
  log.debug('probed the database', { ...age });
}
