import { describe, expect, it } from 'vitest';
import { probe, probeHeld } from '../../../functions/monitor/probe.ts';
import { testDatabase } from '../../support/database.ts';
import { append, installCatalogue, thing } from '../../support/outbox.ts';
import { recordingLog } from '../../support/recorders.ts';

interface Added {
  readonly name: string;
  readonly unit: string;
  readonly value: number;
  readonly dimensions: object;
}

const database = await testDatabase();
const owner = await database.client('sealed_migrator');

/** What a probe as the monitor's own user reports. */
async function probed(): Promise<{ added: Added[]; value: (name: string) => number | undefined; warnings: number }> {
  const added: Added[] = [];
  const log = recordingLog();
  await probe(await database.client('sealed_monitor'), {
    log,
    metrics: { add: (name, unit, value, dimensions = {}) => added.push({ name, unit, value, dimensions }) },
  });
  return {
    added,
    value: (name) => added.find((metric) => metric.name === name)?.value,
    warnings: log.lines.filter(({ level }) => level === 'warn').length,
  };
}

describe('a probe', () => {
  it('warns where no catalogue is installed, because then nothing can wait', async () => {
    const { added, warnings } = await probed();
    expect(added.map(({ name }) => name)).toEqual(['Unroutable']);
    expect(warnings).toBe(1);
  });

  it('measures each destination, and has no silence of a relay that never was', async () => {
    await installCatalogue(owner);
    const { added } = await probed();
    expect(added.map(({ name, unit, dimensions }) => [name, unit, dimensions])).toEqual([
      ['OldestPendingAge', 'Seconds', { Destination: 'queue' }],
      ['Pending', 'Count', { Destination: 'queue' }],
      ['Parked', 'Count', { Destination: 'queue' }],
      ['Blocked', 'Count', { Destination: 'queue' }],
      ['Orphaned', 'Count', { Destination: 'queue' }],
      ['Unroutable', 'Count', {}],
    ]);
    expect(added.map(({ value }) => value)).toEqual([0, 0, 0, 0, 0, 0]);
  });

  it('sees events wait although no relay runs', async () => {
    await append(await database.client('sealed_writer'), thing('a'));
    const { value } = await probed();
    expect(value('Pending')).toBe(1);
    expect(value('OldestPendingAge')).toBeGreaterThan(0);
  });

  it('counts what waits at a destination that the catalogue has no more', async () => {
    await installCatalogue(owner, [{ type: 'thing.happened' }], [{ name: 'other', kind: 'sqs' }]);
    const { added, value } = await probed();
    expect(value('Unroutable')).toBe(1);
    expect(added).toContainEqual({ name: 'Pending', unit: 'Count', value: 1, dimensions: { Destination: 'queue' } });
  });

  it('measures how long the youngest relay is silent', async () => {
    await owner.query(
      `insert into outbox.relay (owner, slot, seen_at)
       values (gen_random_uuid(), 'a', now() - interval '10 minutes'), (gen_random_uuid(), 'b', now() - interval '3 minutes')`,
    );
    const { value } = await probed();
    expect(value('RelaySilence')).toBeGreaterThanOrEqual(180);
    expect(value('RelaySilence')).toBeLessThan(300);
  });

  it('fails and reports nothing when the database does, so that the missing measurement raises the alarm', async () => {
    const added: string[] = [];
    const away = { query: () => Promise.reject(new Error('connection refused')) };
    const probing = probe(away, { log: recordingLog(), metrics: { add: (name) => added.push(name) } });
    await expect(probing).rejects.toThrow('connection refused');
    expect(added).toEqual([]);
  });
});

describe('a probe of the inbox', () => {
  it('measures what each consumer holds, by what it waits for', async () => {
    await owner.query(
      `insert into inbox.consumer (name, mode, starting_point) values ('analytics', 'any', 'first-seen'), ('ledger', 'strict', 'beginning');
       insert into inbox.held_event (consumer, event_id, aggregate_type, aggregate_id, sequence, reason, body, held_at)
       values ('ledger', gen_random_uuid(), 'thing', 'a', 2, 'late', '', now() - interval '1 hour'),
              ('ledger', gen_random_uuid(), 'thing', 'b', 3, 'gap', '', now() - interval '2 hours')`,
    );
    const added: Added[] = [];
    await probeHeld(await database.client('sealed_monitor'), {
      log: recordingLog(),
      metrics: { add: (name, unit, value, dimensions = {}) => added.push({ name, unit, value, dimensions }) },
    });
    const hours = added.map((one) => (one.unit === 'Seconds' ? { ...one, value: Math.floor(one.value / 3600) } : one));
    const of = (Consumer: string, held: number, person: number, turn: number) => [
      { name: 'HeldEvents', unit: 'Count', value: held, dimensions: { Consumer } },
      { name: 'OldestHeldAge', unit: 'Seconds', value: person, dimensions: { Consumer, WaitsFor: 'person' } },
      { name: 'OldestHeldAge', unit: 'Seconds', value: turn, dimensions: { Consumer, WaitsFor: 'turn' } },
    ];
    expect(hours).toEqual([...of('analytics', 0, 0, 0), ...of('ledger', 2, 1, 2)]);
  });

  it('fails and reports nothing when the database does', async () => {
    const added: string[] = [];
    const away = { query: () => Promise.reject(new Error('connection refused')) };
    const probing = probeHeld(away, { log: recordingLog(), metrics: { add: (name) => added.push(name) } });
    await expect(probing).rejects.toThrow('connection refused');
    expect(added).toEqual([]);
  });
});
