import { type Duration, Stack } from 'aws-cdk-lib';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Schedule, ScheduleExpression, ScheduleTargetInput } from 'aws-cdk-lib/aws-scheduler';
import { LambdaInvoke } from 'aws-cdk-lib/aws-scheduler-targets';
import type { Construct } from 'constructs';
import { SCHEDULE_EVENT_AGE } from './node-function.ts';

/** Starts `fn` at this rate, with a role that may start it and nothing else. A start that fails is not repeated: the next one comes anyway. */
export function startEvery(
  scope: Construct,
  id: string,
  {
    scheduleName,
    rate,
    fn,
    input,
  }: {
    readonly scheduleName: string;
    readonly rate: Duration;
    readonly fn: LambdaFunction;
    /** What the function is invoked with. Default: what the scheduler says about itself. */
    readonly input?: object;
  },
): Schedule {
  const role = new Role(scope, `${id}Role`, {
    assumedBy: new ServicePrincipal('scheduler.amazonaws.com', {
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
    description: `Starts ${scheduleName}`,
  });
  role.addToPolicy(new PolicyStatement({ actions: ['lambda:InvokeFunction'], resources: [fn.functionArn] }));
  return new Schedule(scope, id, {
    scheduleName,
    schedule: ScheduleExpression.rate(rate),
    // CDK would also allow every version of the function, with a wildcard.
    target: new LambdaInvoke(fn, {
      role: role.withoutPolicyUpdates(),
      maxEventAge: SCHEDULE_EVENT_AGE,
      retryAttempts: 0,
      ...(input !== undefined && { input: ScheduleTargetInput.fromObject(input) }),
    }),
  });
}
