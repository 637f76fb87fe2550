import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { withTables } from '../support/document-tables.ts';
import { STACK_LOGINS } from '../support/stack-logins.ts';
import { allRights, isWild, reasonsFor, tables, unusedReasons } from './permissions.ts';
import { functionRights, loginRights } from './rights.ts';
import { ROOT, synthesise } from './synthesised.ts';

const DOCUMENT = join(ROOT, 'docs/permissions.md');
const WRITE = 'npm test -- infra test/infra/permissions.test.ts -u';

const stages = { dev: synthesise('dev'), prod: synthesise('prod') };

it(`docs/permissions.md holds what the template of stage prod allows (written by: ${WRITE})`, async () => {
  await expect(withTables(readFileSync(DOCUMENT, 'utf8'), tables(stages.prod))).toMatchFileSnapshot(DOCUMENT, WRITE);
});

describe.each(Object.entries(stages))('rights of stage %s', (_, stage) => {
  const rights = new Map(functionRights(stage).map((fn) => [fn.name, fn.rights]));
  const actionsOf = (name: string): string[] =>
    rights
      .get(name)!
      .filter(({ effect }) => effect === 'may')
      .flatMap(({ actions }) => actions);
  const logins = new Map(loginRights(stage).map((login) => [login.user, login]));

  it('name one resource each, or have exactly one reason not to', () => {
    const without = allRights(stage)
      .filter(isWild)
      .map((right) => ({ ...right, reasons: reasonsFor(right) }))
      .filter(({ reasons }) => reasons.length !== 1);
    expect(without).toEqual([]);
  });

  it('allow every action by its name', () => {
    const all = allRights(stage).filter(
      ({ effect, actions }) => effect === 'may' && actions.some((action) => action.includes('*')),
    );
    expect(new Set(all.map(({ who, actions }) => `${who}: ${actions.join()}`))).toEqual(
      // The two whose own policies do not narrow what a role may: see the reasons.
      new Set(["this account's IAM: kms:*", 'everybody: *']),
    );
  });

  it('keep the relay from keys, from the log of erasures, from the vault, and from receiving', () => {
    expect(
      actionsOf('relay').filter((action) => /^(kms|s3):|Receive|Delete/.test(action) && !action.startsWith('ec2:')),
    ).toEqual([]);
    expect(logins.get('sealed_relay')).toMatchObject({ roles: ['outbox_relay'] });
    expect(logins.get('sealed_relay')).not.toHaveProperty('vault');
  });

  it('give each login no role but those whose refusals are tried in the database', () => {
    const tried = new Map<string, readonly string[]>(STACK_LOGINS.map(({ user, roles }) => [user, roles]));
    expect([...logins.keys()]).toEqual([...tried.keys()]);
    for (const { user, roles } of logins.values()) expect(tried.get(user)).toEqual(expect.arrayContaining([...roles]));
  });

  it('keep the API from queues and the bus', () => {
    expect(actionsOf('api').filter((action) => /^(sqs|events|sns|lambda):/.test(action))).toEqual([]);
  });

  it('let nobody but a schedule, the API, Lambda itself or whom IAM is told start a function', () => {
    const starters = allRights(stage).filter(({ actions }) => actions.some((action) => /lambda:Invoke/.test(action)));
    expect(starters.filter(({ who }) => !/ScheduleRole$|TriggerCustomResource|^apigateway/.test(who))).toEqual([]);
    expect(starters.length).toBeGreaterThan(6);
  });
});

it('has a reason for nothing that is no longer there', () => {
  expect(unusedReasons(Object.values(stages).flatMap(allRights))).toEqual([]);
});

it('tries in the database what the logins of stage prod have, role for role', () => {
  expect(loginRights(stages.prod).map(({ user, roles }) => ({ user, roles }))).toEqual(STACK_LOGINS);
});
