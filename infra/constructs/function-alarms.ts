import { Duration } from 'aws-cdk-lib';
import { type Alarm, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { PRESENT, runbookAlarms, type RunbookAlarmsProps, SILENCE_IS_FINE } from './runbook-alarms.ts';

export interface FunctionAlarmsProps extends RunbookAlarmsProps {
  /** Functions by name, as in the alarms' names. Each has a time-out. */
  readonly functions: Readonly<Record<string, LambdaFunction>>;
  /** Invocations that fail within a period without anybody being told. Default: 0. */
  readonly errors?: number;
  /** Invocations that are refused within a period, for want of concurrency, without anybody being told. Default: 0. */
  readonly throttles?: number;
  /** An invocation that takes more of its time-out than this is near being killed. Percent. Default: 90; relay and janitor end by themselves at 85. */
  readonly durationPercent?: number;
  /** Length of one measurement. Default: 5 minutes, so that what runs every five minutes counts in each. */
  readonly period?: Duration;
}

/** What Lambda itself says of functions. Two bad measurements of three: one that dies and is followed by one that works is no alarm. */
export class FunctionAlarms extends Construct {
  readonly alarms: readonly Alarm[];

  constructor(scope: Construct, id: string, props: FunctionAlarmsProps) {
    super(scope, id);
    const { functions, errors = 0, throttles = 0, durationPercent = 90, period = Duration.minutes(5) } = props;
    const rest = { runbook: 'function', ...PRESENT, ...SILENCE_IS_FINE };
    this.alarms = runbookAlarms(
      this,
      props,
      Object.entries(functions).flatMap(([name, fn]) => {
        if (fn.timeout === undefined) {
          throw new RangeError(
            `${this.node.path}: the function ${name} has no time-out. Give it one: its duration is measured against it.`,
          );
        }
        const longest = (fn.timeout.toMilliseconds() * durationPercent) / 100;
        return [
          {
            name: `errors-${name}`,
            meaning: `Invocations of the function ${name} end with an error, a time-out, or because its process died.`,
            metric: fn.metricErrors({ period, statistic: Stats.SUM }),
            threshold: errors,
            ...rest,
          },
          {
            name: `throttles-${name}`,
            meaning: `Invocations of the function ${name} are refused: the concurrency of the account, or its own, is used up.`,
            metric: fn.metricThrottles({ period, statistic: Stats.SUM }),
            threshold: throttles,
            ...rest,
          },
          {
            name: `duration-${name}`,
            meaning: `Invocations of the function ${name} take more than ${longest} ms, ${durationPercent} percent of its time-out: soon they are killed in the middle.`,
            metric: fn.metricDuration({ period, statistic: Stats.MAXIMUM }),
            threshold: longest,
            ...rest,
          },
        ];
      }),
    );
  }
}
