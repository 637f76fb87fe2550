import { Duration } from 'aws-cdk-lib';
import { Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import type { Schedule } from 'aws-cdk-lib/aws-scheduler';
import { Construct } from 'constructs';
import {
  declaredIndexes,
  type DeclaredIndex,
  defineErasable,
  type ErasableColumns,
} from '../../shared/sealing/index.ts';
import { EventConsumer } from './event-consumer.ts';
import type { EventArchive } from './event-archive.ts';
import { type FunctionDefaults, NodeFunction } from './node-function.ts';
import { METRIC_NAMESPACE } from './outbox.ts';
import type { OutboxDatabase } from './outbox-database.ts';
import type { SealingAccess } from './sealing-access.ts';
import { startEvery } from './scheduled.ts';

export interface JanitorProps extends FunctionDefaults {
  /** The `Installation` dimension of its metrics, as `Outbox.installation`. */
  readonly installation: string;
  readonly database: OutboxDatabase;
  /**
   * How long an event stays after it was published everywhere, and a dedupe row by its event's own time. The latter no shorter than a message can lie in
   * all the queues on its way, and than the window (`windowDays`) of any consumer that was declared for an `EventConsumer` of this database: synthesis refuses it, and
   * the database would keep the rows all the same.
   */
  readonly keep: { readonly outbox: Duration; readonly inbox: Duration };
  /** Where events go before they are deleted. Without one they are deleted only. */
  readonly archive?: EventArchive | undefined;
  /** SQL functions that delete old rows of your own, `schema.name(keep interval, page integer)`, and how long these are kept. */
  readonly also?: Readonly<Record<string, Duration>>;
  /** Roles of the database that those need. */
  readonly roles?: readonly string[];
  /**
   * `rotates`: the classes whose keys it replaces in time, and whose canaries it opens every day. `erases`: it finishes erasures; where the keys have a log of erasures it must.
   * Its login then also needs the rights on `erasable`, by `roles`. Given without a class to rotate it is a mistake. Default: no keys.
   */
  readonly sealing?: SealingAccess | undefined;
  /** How old a branch key becomes before another takes its place; whole days. Default: 90 days. */
  readonly branchKeyAge?: Duration;
  /**
   * Blind indexes over the classes that it rotates, with every column that holds their values: it replaces their keys in time and brings the columns up to date. For that it opens the
   * sealed values beside them, so its login needs the right to read those columns and to write the index, by `roles`. Default: none; their keys then stay.
   */
  readonly indexes?: readonly DeclaredIndex[];
  /** How old the key of a blind index becomes before another takes its place; whole days. Default: 365 days. */
  readonly indexKeyAge?: Duration;
  /** Columns that are cleared when a person is erased, as `defineErasable` takes them. Default: none. */
  readonly erasable?: readonly ErasableColumns[];
}

type JanitorArea = 'outbox' | 'inbox' | 'erasure';

/** A run and one that overlaps; erasures have a connection of their own, beside. */
const CONNECTIONS = { pruning: 2, erasing: 4 };

/** What a run takes at most; the next one goes on where it ended. */
const LONGEST_RUN = Duration.minutes(4);

/** Deletes what is no longer needed, in small pages and for half of the time at most, every five minutes. */
export class Janitor extends Construct {
  readonly function: LambdaFunction;
  readonly schedule: Schedule;
  /** The `Area` dimension of its metrics. */
  readonly areas: readonly JanitorArea[];
  /** How old it lets a branch key become. */
  readonly branchKeyAge: Duration;
  /** Names of the blind indexes whose keys it replaces. */
  readonly indexes: readonly string[];
  private readonly installation: string;

  constructor(scope: Construct, id: string, props: JanitorProps) {
    super(scope, id);
    this.installation = props.installation;
    const { keep, archive, also = {}, roles = [], sealing, branchKeyAge = Duration.days(90) } = props;
    const { indexes = [], indexKeyAge = Duration.days(365) } = props;
    const erases = sealing?.erases === true;
    if (sealing !== undefined && (sealing.rotates ?? []).length === 0) {
      throw new RangeError(
        `${this.node.path}: a janitor that is given keys looks after them, and this one may not: name their classes in sealing.rotates.`,
      );
    }
    if (sealing?.keys.erasureLog !== undefined && !erases) {
      throw new RangeError(
        `${this.node.path}: the keys have a log of erasures, which a janitor finishes: declare erases: true.`,
      );
    }
    const closed = indexes.find((index) => sealing?.rotates?.includes(index.class) !== true);
    if (closed !== undefined) {
      throw new RangeError(
        `${this.node.path}: index ${closed.name} is over class ${closed.class}, which this janitor does not rotate: add it to sealing.rotates.`,
      );
    }
    declaredIndexes(indexes);
    // Consumers may come later, and in other stacks.
    this.node.addValidation({ validate: () => this.tooShort(props) });
    this.branchKeyAge = branchKeyAge;
    this.indexes = indexes.map(({ name }) => name);
    this.areas = erases ? ['outbox', 'inbox', 'erasure'] : ['outbox', 'inbox'];
    this.function = new NodeFunction(this, 'Function', {
      ...props,
      entry: { own: 'janitor' },
      serviceName: 'janitor',
      description: 'Archives and deletes events and dedupe rows that are no longer needed; rotates keys',
      timeout: LONGEST_RUN.plus(Duration.minutes(1)),
      memorySize: 1024,
      environment: {
        OUTBOX_INSTALLATION: props.installation,
        OUTBOX_KEEP_DAYS: String(keep.outbox.toDays()),
        INBOX_KEEP_DAYS: String(keep.inbox.toDays()),
        JANITOR_ARCHIVE: archive === undefined ? 'none' : `s3://${archive.bucket.bucketName}`,
        JANITOR_ALSO: JSON.stringify(
          Object.fromEntries(Object.entries(also).map(([name, duration]) => [name, duration.toDays()])),
        ),
        JANITOR_MAX_SECONDS: String(LONGEST_RUN.toSeconds()),
        ...(sealing !== undefined && { SEALING_BRANCH_DAYS: String(branchKeyAge.toDays()) }),
        ...(indexes.length > 0 && {
          SEALING_INDEX_DAYS: String(indexKeyAge.toDays()),
          JANITOR_INDEXES: JSON.stringify(indexes),
        }),
        ...(erases && { JANITOR_ERASABLE: JSON.stringify(defineErasable(props.erasable ?? [])) }),
      },
      scheduled: true,
    });
    archive?.grantAdd(this.function);
    props.database.connect(
      this.function,
      {
        user: 'sealed_janitor',
        roles: [
          'outbox_janitor',
          ...(archive === undefined ? [] : ['outbox_archiver']),
          // It tells consumers that a person was erased.
          ...(erases ? ['outbox_writer'] : []),
          'inbox_janitor',
          ...roles,
        ],
        sealing: sealing && {
          ...sealing,
          // Who is erased stands in the request: it recognises nobody in the log.
          erases: false,
          finishes: erases,
          indexes: {
            ...sealing.indexes,
            ...Object.fromEntries(indexes.map(({ name, class: className }) => [name, className])),
          },
        },
      },
      erases ? CONNECTIONS.erasing : CONNECTIONS.pruning,
    );
    this.schedule = startEvery(this, 'Schedule', {
      scheduleName: `${props.installation}-janitor`,
      rate: Duration.minutes(5),
      fn: this.function,
    });
  }

  /** What is wrong with `keep.inbox` for the consumers of the same database. */
  private tooShort({ keep, database }: JanitorProps): string[] {
    const days = keep.inbox.toDays();
    return this.node.root.node
      .findAll()
      .filter((it): it is EventConsumer => it instanceof EventConsumer && it.database === database)
      .filter(({ windowDays = 0 }) => windowDays > days)
      .map(
        ({ consumer, windowDays }) =>
          `keep.inbox is ${days} days, and consumer ${consumer} applies events up to ${windowDays} days old, for which it needs their dedupe rows. ` +
          'Raise keep.inbox, or declare a shorter windowDays.',
      );
  }

  /** Seconds by which old rows of `area`, or erasures, are overdue. No value while the janitor fails there. */
  metricPruneLag(area: JanitorArea, period = Duration.minutes(15)): Metric {
    return new Metric({
      namespace: METRIC_NAMESPACE,
      metricName: 'PruneLag',
      dimensionsMap: { Installation: this.installation, Area: area },
      statistic: Stats.MAXIMUM,
      period,
    });
  }
}
