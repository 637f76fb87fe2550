import { describe, expect, it } from 'vitest';
import { eventConsumer } from '../../shared/inbox/index.ts';
import { runRelay } from '../../shared/outbox/index.ts';
import { noMetrics } from '../../shared/telemetry/index.ts';
import { unexplainedLog } from '../chaos/unexplained.ts';
import { counterCatalogue, counterEnvelope } from '../support/counter-events.ts';
import { testDatabase } from '../support/database.ts';
import { recordingPublisher, relayOptions } from '../support/outbox.ts';
import { fifoRecord, invoke } from '../support/sqs-batch.ts';

const database = await testDatabase();
const owner = await database.client('sealed_migrator');

/** What a process of a run of chaos would report, and a signal that ends with the first of it. */
function listening() {
  const said: string[] = [];
  const stop = new AbortController();
  const log = unexplainedLog(({ unexplained }) => {
    said.push(unexplained);
    stop.abort();
  });
  return { said, log, signal: stop.signal };
}

describe('what a run of chaos fails for', () => {
  it('a relay that lacks a right is among it', async () => {
    await owner.query('revoke select on outbox.partition from outbox_relay');
    const { said, log, signal } = listening();
    const publishers = { queue: recordingPublisher() };
    await runRelay(relayOptions(database, publishers, { log, signal, mode: 'continuous' })).catch(() => {});
    await owner.query('grant select on outbox.partition to outbox_relay');
    expect(said).toContainEqual(expect.stringMatching(/^42501: /));
  });

  it('a consumer that lacks a right is among it: its messages go back, as in an outage', async () => {
    const { said, log } = listening();
    const pool = database.pool('sealed_ledger', 1);
    const handler = eventConsumer({
      name: 'lacking',
      mode: 'any',
      catalogue: counterCatalogue,
      handlers: { 'counter.added': async () => {} },
      pool,
      log,
      metrics: noMetrics,
    });
    const record = fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1 }));
    expect(await invoke(handler, [])).toEqual([]);
    await owner.query('revoke insert on inbox.processed_event from inbox_consumer');
    expect(await invoke(handler, [record])).toEqual([record.messageId]);
    await owner.query('grant insert on inbox.processed_event to inbox_consumer');
    expect(said).toContainEqual(expect.stringMatching(/^42501: /));
    const heard = said.length;
    expect(await invoke(handler, [record])).toEqual([]);
    expect(said).toHaveLength(heard);
  });
});
