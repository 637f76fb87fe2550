import { beforeEach, describe, expect, it } from 'vitest';
import { probeHeld } from '../../functions/monitor/probe.ts';
import { type AlarmState, evaluateAlarm } from '../../local/cloudwatch/alarm.ts';
import type { Sample } from '../../local/cloudwatch/samples.ts';
import { eventConsumer, listHeld, skipHeld } from '../../shared/inbox/index.ts';
import { counterConsumer, createEffects } from '../support/counter-consumer.ts';
import { counterEnvelope } from '../support/counter-events.ts';
import { testDatabase } from '../support/database.ts';
import { HELD_RULES, RETURNED_RULES } from '../support/lag-rules.ts';
import { recordingLog } from '../support/recorders.ts';
import { drainOf, fifoRecord, invoke } from '../support/sqs-batch.ts';

const database = await testDatabase();
await createEffects(database);
const owner = database.pool('sealed_migrator');
const monitor = database.pool('sealed_monitor');
const operator = database.pool('sealed_operator');
const { handler } = counterConsumer({ name: 'ledger', pool: database.pool('sealed_ledger') });
const message = (sequence: number) => fifoRecord('c', counterEnvelope({ counter: 'c', sequence }));
const MINUTE = 60_000;
const NOON = Date.UTC(2030, 0, 1, 12);

beforeEach(() => owner.query('truncate inbox.held_event, inbox.processed_event, inbox.stream_position, effect'));

/** A monitor that looks once a minute, and the alarms that stand on what it sees. */
function watch() {
  const samples: Record<string, Sample[]> = { person: [], turn: [] };
  let now = NOON;
  const states: Record<'held' | 'gap', AlarmState> = { held: 'OK', gap: 'OK' };
  return {
    states,
    minute: async (count = 1): Promise<void> => {
      for (let passed = 0; passed < count; passed += 1) {
        await probeHeld(monitor, {
          log: recordingLog(),
          metrics: {
            add: (name, unit, value, dimensions = {}) => {
              const of = dimensions['WaitsFor'];
              if (of !== undefined) {
                samples[of]?.push({ namespace: 'SealedOutbox', name, dimensions: {}, unit, value, at: now });
              }
            },
          },
        });
        now += MINUTE;
        await owner.query(`update inbox.held_event set held_at = held_at - interval '1 minute'`);
        states.held = evaluateAlarm(HELD_RULES['held-ledger'], samples['person'] ?? [], states.held, now).state;
        states.gap = evaluateAlarm(HELD_RULES['gap-ledger'], samples['turn'] ?? [], states.gap, now).state;
      }
    },
  };
}

describe('the alarms of a consumer, as deployed', () => {
  it('go off within minutes for what waits for a person, and end when it is decided and done', async () => {
    const { states, minute } = watch();
    expect(await invoke(handler, [fifoRecord('stranger', 'no envelope')])).toEqual([]);
    await minute(3);
    expect(states).toEqual({ held: 'ALARM', gap: 'OK' });
    const [stranger] = (await listHeld(operator)).held;
    await skipHeld(operator, 'ledger', stranger?.eventId ?? '', 'no event of ours');
    await minute(3);
    expect(states).toEqual({ held: 'OK', gap: 'OK' });
  });

  it('go off within half an hour for messages that go back again and again, not for a few that do once, and end when they get through', async () => {
    const samples: Sample[] = [];
    let now = NOON;
    let state: AlarmState = 'OK';
    let away = false;
    const pool = database.pool('sealed_ledger');
    const { options } = counterConsumer({ name: 'returns', pool });
    const returning = eventConsumer({
      ...options,
      pool: Object.assign(Object.create(pool), {
        connect: async () =>
          away ? Promise.reject(Object.assign(new Error('away'), { code: 'ECONNREFUSED' })) : pool.connect(),
      }),
      metrics: {
        add: (name, unit, value) => {
          if (name === 'Receives')
            samples.push({ namespace: 'SealedOutbox', name, dimensions: {}, unit, value, at: now });
        },
      },
    });
    /** The queue gives the messages out again every three minutes. */
    const receive = async (times: number, sent: readonly ReturnType<typeof message>[]): Promise<void> => {
      for (let count = 1; count <= times; count += 1) {
        const again = sent.map((record) => ({
          ...record,
          attributes: { ...record.attributes, ApproximateReceiveCount: `${count}` },
        }));
        const returned = await invoke(returning, again);
        expect(returned).toHaveLength(away ? sent.length : 0);
        now += 3 * MINUTE;
        state = evaluateAlarm(RETURNED_RULES['returned-ledger'], samples, state, now).state;
      }
    };
    await receive(1, [message(1)]);
    away = true;
    for (let sequence = 2; sequence < 10; sequence += 1) await receive(2, [message(sequence)]);
    expect(state).toBe('OK');
    const stuck = [message(2), message(3)];
    await receive(7, stuck);
    expect(state).toBe('ALARM');
    away = false;
    await receive(1, stuck);
    await receive(10, [message(4)]);
    expect(state).toBe('OK');
  });

  it('go off for a gap that stays open, not for one that closes in time', async () => {
    const { states, minute } = watch();
    expect(await invoke(handler, [message(2)])).toEqual([]);
    await minute(15);
    expect(states).toEqual({ held: 'OK', gap: 'OK' });
    await minute(5);
    expect(states).toEqual({ held: 'OK', gap: 'ALARM' });
    expect(await invoke(handler, [message(1)])).toEqual([]);
    await drainOf(handler);
    await minute(5);
    expect(states).toEqual({ held: 'OK', gap: 'OK' });
  });
});
