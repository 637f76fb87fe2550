import { Duration } from 'aws-cdk-lib';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type {
  ConsumerAlarmsProps,
  DatabaseAlarmsProps,
  FunctionAlarmsProps,
  OutboxAlarmsProps,
  OutboxClusterProps,
  SealingAlarmsProps,
} from './index.ts';
import { SealedOutboxError } from '../shared/errors/index.ts';

export type StageName = 'local' | 'dev' | 'prod';

/** In what the stages differ. Everything else is the same everywhere. */
export interface Stage {
  readonly name: StageName;
  readonly relayMode: 'continuous' | 'drain';
  readonly logRetention: RetentionDays;
  /** Whether queues and logs outlive their stack. */
  readonly keepsData: boolean;
  readonly apiAccess: 'iam' | 'open';
  /** How long an erasure that was asked for can be cancelled. */
  readonly erasureDelay: Duration;
  /** Time-out of consumers. The queue's visibility time-out is six times as long. */
  readonly consumerTimeout: Duration;
  /** How long a consumer's database may be away before messages become dead letters. */
  readonly consumerOutage: Duration;
  /** How long rows stay that nobody needs, and whether events go into an archive before they are deleted. */
  readonly retention: { readonly outbox: Duration; readonly inbox: Duration; readonly archive: boolean };
  /** Zones of the VPC, and in how many of them functions and endpoints are. None locally: functions reach what is on this machine. */
  readonly network?: { readonly zones: 2 | 3; readonly functionZones: 1 | 2 | 3 };
  /** The Aurora cluster, where no other database is given. None locally. */
  readonly cluster?: Pick<OutboxClusterProps, 'capacity' | 'reader' | 'backupRetention' | 'insights'>;
  readonly alarms: {
    /** Length of one measurement. */
    readonly period: Duration;
    /** An event that waits longer is late. */
    readonly oldestPendingAge: Duration;
    /** A relay that was not seen for longer is gone. */
    readonly relaySilence: Duration;
    /** Others that are not the constructs' own, for a stage whose alarms are to be seen within half a minute. */
    readonly outbox?: Pick<OutboxAlarmsProps, 'pendingEvents' | 'blockedEvents' | 'oldestHeldAge' | 'janitorPeriod'>;
    readonly consumers?: Pick<ConsumerAlarmsProps, 'queueAge' | 'effectAge' | 'receives'>;
    readonly functions?: Pick<FunctionAlarmsProps, 'period'>;
    readonly database?: Pick<
      DatabaseAlarmsProps,
      'connectionsPercent' | 'oldestTransaction' | 'snapshotAge' | 'transactionIdAge'
    >;
    readonly sealing?: Pick<SealingAlarmsProps, 'janitorPeriod' | 'erasuresAnHour' | 'erasurePeriod'>;
  };
}

/** Longer than a message can lie in a queue and its dead-letter queue: 14 days each. Twice that is not needed in practice. */
const INBOX = Duration.days(35);
/** As long as a queue keeps what it was given: what is lost there can be sent again from here. */
const OUTBOX = Duration.days(14);

const onAws = {
  apiAccess: 'iam',
  consumerTimeout: Duration.seconds(30),
  consumerOutage: Duration.hours(6),
  alarms: {
    period: Duration.minutes(1),
    oldestPendingAge: Duration.minutes(2),
    relaySilence: Duration.minutes(4),
  },
} as const;

export const stages: Readonly<Record<StageName, Stage>> = {
  local: {
    name: 'local',
    relayMode: 'continuous',
    logRetention: RetentionDays.ONE_DAY,
    keepsData: false,
    retention: { outbox: OUTBOX, inbox: INBOX, archive: true },
    apiAccess: 'open',
    erasureDelay: Duration.seconds(0),
    // What can be neither applied nor held reaches the dead-letter queue after three receives of 30 s instead of 120 of 180 s.
    consumerTimeout: Duration.seconds(5),
    consumerOutage: Duration.seconds(90),
    // Measurements of 10 s, so that an alarm goes off within half a minute. Schedules start every minute at best, so the
    // local cloud invokes monitor and janitor itself.
    alarms: {
      period: Duration.seconds(10),
      oldestPendingAge: Duration.seconds(15),
      relaySilence: Duration.seconds(90),
      outbox: {
        pendingEvents: 10,
        blockedEvents: 1,
        oldestHeldAge: Duration.seconds(5),
        janitorPeriod: Duration.seconds(10),
      },
      consumers: { queueAge: Duration.seconds(10), effectAge: Duration.seconds(10) },
      functions: { period: Duration.seconds(10) },
      database: {
        connectionsPercent: 40,
        oldestTransaction: Duration.seconds(10),
        snapshotAge: 2_000,
        transactionIdAge: 150_000,
      },
      sealing: { janitorPeriod: Duration.seconds(10), erasuresAnHour: 1, erasurePeriod: Duration.seconds(10) },
    },
  },
  dev: {
    ...onAws,
    name: 'dev',
    erasureDelay: Duration.seconds(0),
    relayMode: 'drain',
    logRetention: RetentionDays.ONE_WEEK,
    keepsData: false,
    // A bucket with something in it could not be deleted with its stack.
    retention: { outbox: OUTBOX, inbox: INBOX, archive: false },
    network: { zones: 2, functionZones: 1 },
    cluster: { capacity: { min: 0.5, max: 2 }, backupRetention: Duration.days(14) },
  },
  prod: {
    ...onAws,
    name: 'prod',
    // For mistakes and stolen credentials: somebody sees the alarm on the rate before it is too late.
    erasureDelay: Duration.days(1),
    relayMode: 'continuous',
    logRetention: RetentionDays.THREE_MONTHS,
    keepsData: true,
    retention: { outbox: OUTBOX, inbox: INBOX, archive: true },
    network: { zones: 3, functionZones: 3 },
    // A backup holds the keys of persons who were erased since: no longer than the 35 days that their erasure names.
    cluster: {
      capacity: { min: 1, max: 16 },
      reader: true,
      backupRetention: Duration.days(35),
      insights: 'advanced',
    },
  },
};

/** The stage is missing or unknown. Code `STAGE_UNKNOWN`. */
class UnknownStageError extends SealedOutboxError {
  constructor(given: unknown) {
    const what = given === undefined ? 'No stage is given' : `There is no stage ${JSON.stringify(given)}`;
    super(
      'STAGE_UNKNOWN',
      `${what}: nothing was synthesised. Give one of ${Object.keys(stages).join(', ')}: -c stage=dev`,
    );
  }
}

/** @throws UnknownStageError (`STAGE_UNKNOWN`) */
export function stageNamed(given: unknown): Stage {
  if (typeof given === 'string' && Object.hasOwn(stages, given)) return stages[given as StageName];
  throw new UnknownStageError(given);
}
