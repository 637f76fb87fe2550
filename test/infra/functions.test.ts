import { describe, expect, it } from 'vitest';
import { definition } from '../../functions/sample/catalogue/definition.ts';
import { callerRules } from '../../functions/sample/api/caller.ts';
import { routes } from '../../functions/sample/api/routes.ts';
import { synthesise, variablesOf } from './synthesised.ts';

describe.each(['dev', 'prod', 'local'] as const)('functions of stage %s', (stage) => {
  const { service, resources, functionNamed: named } = synthesise(stage);
  const functions = resources('AWS::Lambda::Function');
  it('run on Node 24', () => {
    expect(functions).toHaveLength(10);
    for (const [, { Properties }] of functions) expect(Properties['Runtime']).toBe('nodejs24.x');
  });

  it('show stack traces of the source, not of the bundle', () => {
    const names = ['relay', 'monitor', 'janitor', 'operator', 'migrate', 'ledger', 'analytics', 'notifications', 'api'];
    for (const name of names) {
      expect(variablesOf(named(name)[1])['NODE_OPTIONS']).toBe('--enable-source-maps');
    }
  });

  it('write to a log group of their own, which forgets', () => {
    const groups = functions.map(([, { Properties }]) => Properties['LoggingConfig']?.LogGroup?.Ref);
    expect(new Set(groups).size).toBe(functions.length);
    const retained = Object.fromEntries(
      resources('AWS::Logs::LogGroup').map(([id, { Properties }]) => [id, Properties['RetentionInDays']]),
    );
    for (const group of groups) expect(retained[group]).toBeGreaterThan(0);
    for (const days of Object.values(retained)) expect(days).toBeGreaterThan(0);
  });

  it.each(['relay', 'monitor'])('%s starts each minute; a start that is late or fails is not repeated', (name) => {
    const [id] = named(name);
    const once = { MaximumEventAgeInSeconds: 60, MaximumRetryAttempts: 0 };
    const [, schedule] = resources('AWS::Scheduler::Schedule').find(
      ([, { Properties }]) => Properties['Target'].Arn['Fn::GetAtt'][0] === id,
    )!;
    expect(schedule.Properties).toMatchObject({
      ScheduleExpression: 'rate(1 minute)',
      FlexibleTimeWindow: { Mode: 'OFF' },
      State: 'ENABLED',
      Target: { RetryPolicy: { MaximumEventAgeInSeconds: 60, MaximumRetryAttempts: 0 } },
    });
    service.hasResourceProperties('AWS::Lambda::EventInvokeConfig', {
      FunctionName: { Ref: id },
      Qualifier: '$LATEST',
      ...once,
    });
  });

  it.each(['ledger', 'analytics', 'notifications'])(
    '%s goes on with held events every five minutes, also when no message comes',
    (name) => {
      const [id] = named(name);
      const schedules = resources('AWS::Scheduler::Schedule').filter(
        ([, { Properties }]) => Properties['Target'].Arn['Fn::GetAtt'][0] === id,
      );
      expect(schedules.map(([, { Properties }]) => Properties)).toMatchObject([
        { ScheduleExpression: 'rate(5 minutes)', State: 'ENABLED', Target: { Input: '{"action":"drain-held"}' } },
      ]);
      // An event that a bus hands over itself must be tried again after a failure.
      expect(
        resources('AWS::Lambda::EventInvokeConfig').filter(
          ([, { Properties }]) => Properties['FunctionName'].Ref === id,
        ),
      ).toEqual([]);
    },
  );

  it('give the relay time to finish after its longest run', () => {
    const [, relay] = named('relay');
    expect(Number(variablesOf(relay)['RELAY_MAX_SECONDS'])).toBe(150);
    expect(relay.Properties['Timeout']).toBe(180);
    expect(variablesOf(relay)['RELAY_MODE']).toBe(stage === 'dev' ? 'drain' : 'continuous');
  });

  it("know the catalogue's destinations and no other", () => {
    const { 'Fn::Join': join } = variablesOf(named('relay')[1])['OUTBOX_DESTINATIONS'];
    const text = join[1].map((part: unknown) => (typeof part === 'string' ? part : 'address')).join('');
    expect(JSON.parse(text)).toEqual(
      Object.fromEntries(
        Object.entries(definition.destinations).map(([name, { kind }]) => [
          name,
          kind === 'eventbridge' ? { kind, bus: 'address' } : { kind, url: 'address' },
        ]),
      ),
    );
  });

  it('are created after the migration that makes their database users', () => {
    const [trigger] = resources('Custom::Trigger').map(([id]) => id);
    for (const name of ['relay', 'monitor', 'janitor', 'operator', 'ledger', 'analytics', 'notifications', 'api'])
      expect(named(name)[1].DependsOn).toContain(trigger);
  });

  it('migrate again when the code, the SQL or a login changes', () => {
    const [trigger] = resources('Custom::Trigger').map(([, { Properties }]) => Properties);
    const version = trigger?.['HandlerArn'].Ref as string;
    const [id, migrate] = named('migrate');
    expect(service.findResources('AWS::Lambda::Version')[version]?.['Properties'].FunctionName.Ref).toBe(id);
    expect(migrate.Properties['Timeout']).toBe(600);
    expect(Number(trigger?.['Timeout'])).toBe(600_000);
    expect(JSON.parse(variablesOf(migrate)['DATABASE_LOGINS'])).toEqual([
      { user: 'sealed_relay', roles: ['outbox_relay'], connections: 4 },
      { user: 'sealed_monitor', roles: ['outbox_monitor', 'inbox_monitor'], connections: 2 },
      {
        user: 'sealed_ledger',
        roles: ['sample_ledger', 'inbox_consumer', 'vault_reader'],
        connections: 44,
        vault: { reads: ['contact'], creates: [] },
      },
      { user: 'sealed_analytics', roles: ['sample_analytics', 'inbox_consumer'], connections: 44 },
      {
        user: 'sealed_notifications',
        roles: ['sample_notifications', 'inbox_consumer', 'vault_reader'],
        connections: 44,
        vault: { reads: ['contact'], creates: [] },
      },
      {
        user: 'sealed_api',
        roles: ['sample_api', 'sample_eraser', 'outbox_writer', 'vault_writer', 'vault_eraser'],
        connections: 40,
        vault: { reads: [], creates: ['bank', 'contact', 'tax'], indexes: { 'customer-email': 'contact' } },
      },
      {
        user: 'sealed_janitor',
        roles: [
          'outbox_janitor',
          ...(stage === 'dev' ? [] : ['outbox_archiver']),
          'outbox_writer',
          'inbox_janitor',
          'sample_janitor',
          'sample_eraser',
          'vault_writer',
          'vault_rotator',
          'vault_index_rotator',
          'vault_eraser',
        ],
        connections: 4,
        vault: { reads: [], creates: ['bank', 'contact', 'tax'], indexes: { 'customer-email': 'contact' } },
      },
      {
        user: 'sealed_operator',
        roles: [
          'outbox_operator',
          ...(stage === 'dev' ? [] : ['outbox_replayer']),
          'inbox_operator',
          'vault_operator',
          'outbox_writer',
          'sample_eraser',
          'vault_eraser',
        ],
        connections: 6,
        vault: { reads: [], creates: [] },
      },
    ]);
  });

  it('get every route that the API knows, and the rest for its own 404', () => {
    const keys = resources('AWS::ApiGatewayV2::Route').map(([, { Properties }]) => Properties['RouteKey']);
    expect(new Set(keys)).toEqual(new Set([...Object.keys(routes), '$default']));
  });

  it('show personal values whole to nobody who is not named, and believe a header on this machine only', () => {
    const [, fn] = named('api');
    const { CLEAR_VALUES_FOR, LOCAL_PRINCIPAL_HEADER } = variablesOf(fn);
    expect(JSON.parse(CLEAR_VALUES_FOR)).toEqual(stage === 'local' ? ['arn:aws:iam::000000000000:role/clerk'] : []);
    expect(LOCAL_PRINCIPAL_HEADER).toBe(stage === 'local' ? 'x-local-principal' : undefined);
    expect(callerRules(variablesOf(fn)).seeClearValues).toEqual(JSON.parse(CLEAR_VALUES_FOR));
  });

  it('answer signed requests only, except on this machine', () => {
    for (const [, { Properties }] of resources('AWS::ApiGatewayV2::Route')) {
      expect(Properties['AuthorizationType']).toBe(stage === 'local' ? 'NONE' : 'AWS_IAM');
    }
  });
});
