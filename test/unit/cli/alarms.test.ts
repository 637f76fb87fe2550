import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { exitCodeOf, renderedAlarms, standings } from '../../../cli/alarms/states.ts';
import { targetOf } from '../../../cli/cloud/target.ts';

const alarm = (AlarmName: string, StateValue: 'OK' | 'ALARM' | 'INSUFFICIENT_DATA', more = {}) => ({
  AlarmName: `shop-${AlarmName}`,
  StateValue,
  StateReason: `because of ${AlarmName}`,
  StateUpdatedTimestamp: new Date('2026-11-30T10:00:00Z'),
  AlarmDescription: `It means something. Runbook: docs/runbooks/${AlarmName}.md`,
  ...more,
});

describe('alarms', () => {
  it('are shown with those that are raised first, since when, and what to read', () => {
    const shown = standings(
      [
        alarm('lag', 'OK'),
        alarm('parked', 'ALARM', { StateTransitionedTimestamp: new Date('2026-11-30T09:00:00Z') }),
        alarm('held', 'INSUFFICIENT_DATA', { AlarmDescription: undefined }),
      ],
      'shop',
    );
    expect(shown.map(({ name, state, since, runbook }) => [name, state, since, runbook])).toEqual([
      ['parked', 'ALARM', '2026-11-30T09:00:00.000Z', 'docs/runbooks/parked.md'],
      ['held', 'INSUFFICIENT_DATA', '2026-11-30T10:00:00.000Z', null],
      ['lag', 'OK', '2026-11-30T10:00:00.000Z', 'docs/runbooks/lag.md'],
    ]);
    const text = renderedAlarms(shown);
    expect(text).toMatch(
      /^alarm +state +since +runbook\nparked +ALARM +2026-11-30T09:00:00Z +docs\/runbooks\/parked.md\n/,
    );
    expect(text).toMatch(/parked: because of parked\n\n1 of 3 raised, 1 without data yet\.$/);
    expect(renderedAlarms([])).toBe('There is no alarm of this stack.');
  });

  it.each([
    [[alarm('lag', 'OK'), alarm('held', 'INSUFFICIENT_DATA')], 0],
    [[alarm('lag', 'OK'), alarm('parked', 'ALARM')], 1],
    [[], 3],
  ])(
    'make a check that finds them end with a code of its own, and one that finds none does not pass: %#',
    (found, code) => {
      const shown = standings(found, 'shop');
      expect(exitCodeOf(shown, true)).toBe(code);
      expect(exitCodeOf(shown, false)).toBe(0);
    },
  );
});

describe('the installation that is meant', () => {
  const directory = mkdtempSync(join(tmpdir(), 'target-'));
  afterAll(() => rmSync(directory, { recursive: true }));

  it('is the one on AWS that the words or the environment name', () => {
    expect(targetOf({ stack: 'shop', region: 'eu-west-1' }, {})).toMatchObject({
      stack: 'shop',
      operatorFunction: 'shop-operator',
      client: { region: 'eu-west-1' },
      caller: undefined,
    });
    expect(targetOf({}, { SEALED_OUTBOX_STACK: 'shop' }).operatorFunction).toBe('shop-operator');
    expect(targetOf({ function: 'other-operator', profile: 'p' }, {})).toMatchObject({
      stack: 'other',
      operatorFunction: 'other-operator',
      client: { profile: 'p' },
    });
  });

  it('is else the local cloud, at the address that it has written down', () => {
    writeFileSync(join(directory, 'state.json'), '{"addresses":{"AWS":"http://127.0.0.1:4566"}}');
    expect(targetOf({ directory }, { SEALED_OUTBOX_STACK: 'shop' })).toMatchObject({
      operatorFunction: 'sealed-outbox-local-service-operator',
      client: { endpoint: 'http://127.0.0.1:4566' },
      caller: expect.stringMatching(/^local:./),
    });
  });

  it('is none where no local cloud runs, and it is said what to do', () => {
    expect(() => targetOf({ directory: join(directory, 'none') }, {})).toThrow(/Start one with npm start.*--stack/);
    writeFileSync(join(directory, 'state.json'), '{"addresses":{}}');
    expect(() => targetOf({ directory }, {})).toThrow(/no local cloud runs/);
  });
});
