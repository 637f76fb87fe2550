import { beforeEach, describe, expect, it } from 'vitest';
import { probe } from '../../functions/monitor/probe.ts';
import { type AlarmState, evaluateAlarm } from '../../local/cloudwatch/alarm.ts';
import type { Sample } from '../../local/cloudwatch/samples.ts';
import { runRelay } from '../../shared/outbox/index.ts';
import { testDatabase } from '../support/database.ts';
import { LAG_RULES } from '../support/lag-rules.ts';
import { append, installCatalogue, recordingPublisher, refused, relayOptions, thing } from '../support/outbox.ts';
import { recordingLog } from '../support/recorders.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const monitor = database.pool('sealed_monitor');
const LEDGER = { name: 'ledger', kind: 'sqs-fifo' } as const;
const MINUTE = 60_000;
const NOON = Date.UTC(2030, 0, 1, 12);

beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay');
  await installCatalogue(owner, [{ type: 'thing.happened' }], [LEDGER]);
});

/** A monitor that looks once a minute, and the alarms that stand on what it sees. */
function watch() {
  const samples: Record<string, Sample[]> = { OldestPendingAge: [], RelaySilence: [] };
  let now = NOON;
  const states: Record<'lag' | 'silent', AlarmState> = { lag: 'OK', silent: 'OK' };
  return {
    states,
    minute: async (count = 1): Promise<void> => {
      for (let passed = 0; passed < count; passed += 1) {
        await probe(monitor, {
          log: recordingLog(),
          metrics: {
            add: (name, unit, value) => {
              samples[name]?.push({ namespace: 'SealedOutbox', name, dimensions: {}, unit, value, at: now });
            },
          },
        });
        now += MINUTE;
        await owner.query(`update outbox.delivery set created_at = created_at - interval '1 minute'`);
        await owner.query(`update outbox.relay set seen_at = seen_at - interval '1 minute'`);
        states.lag = evaluateAlarm(
          LAG_RULES['oldest-pending-age-ledger'],
          samples['OldestPendingAge'] ?? [],
          states.lag,
          now,
        ).state;
        states.silent = evaluateAlarm(
          LAG_RULES['relay-silent'],
          samples['RelaySilence'] ?? [],
          states.silent,
          now,
        ).state;
      }
    },
  };
}

const drain = (publisher = recordingPublisher()) => runRelay(relayOptions(database, { ledger: publisher }));

describe('the lag alarm, as deployed', () => {
  it('case 23: goes off although no relay ever started, about five minutes after the first event waits, and ends with the first relay', async () => {
    const { states, minute } = watch();
    await minute(5);
    await append(writer, thing('a'));
    await minute(4);
    expect(states.lag).toBe('OK');
    await minute(2);
    expect(states).toEqual({ lag: 'ALARM', silent: 'ALARM' });
    await drain();
    await minute(5);
    expect(states).toEqual({ lag: 'OK', silent: 'OK' });
  });

  it('like case 23: goes off when a relay runs, and its destination takes nothing; the other one does not', async () => {
    await append(writer, thing('a'));
    const { states, minute } = watch();
    for (let passed = 0; passed < 6; passed += 1) {
      await drain(recordingPublisher(() => refused('AccessDenied')));
      await minute();
    }
    expect(states).toEqual({ lag: 'ALARM', silent: 'OK' });
  });

  it('like case 23: does not go off for what waits for a person, nor while nothing waits', async () => {
    await append(writer, thing('a'), thing('a'));
    await drain(recordingPublisher(() => refused('InvalidMessageContents')));
    const { states, minute } = watch();
    await minute(10);
    expect(states.lag).toBe('OK');
  });
});
