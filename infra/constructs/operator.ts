import { Duration, Stack } from 'aws-cdk-lib';
import type { IGrantable, Grant } from 'aws-cdk-lib/aws-iam';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { type Classes, defineClasses, defineErasable, type ErasableColumns } from '../../shared/sealing/index.ts';
import type { EventArchive } from './event-archive.ts';
import type { IEventQueue } from './event-queue.ts';
import { type FunctionDefaults, NodeFunction } from './node-function.ts';
import type { OutboxDatabase } from './outbox-database.ts';
import type { ISealingKeys } from './sealing-keys.ts';

export interface OperatorProps extends FunctionDefaults {
  /** The beginning of its name, as `Outbox.installation`: `npm run ops -- --stack` finds it by that. */
  readonly installation: string;
  readonly database: OutboxDatabase;
  /** Queues whose dead letters it may send again: a name, and the queue. Default: none. */
  readonly queues?: Readonly<Record<string, IEventQueue>>;
  /** Whether the consumers' tables are in this database, too. Default: true. */
  readonly inbox?: boolean;
  /** Whether it asks the janitor for rotation of keys, in the vault of this database. It is given no key for that. Default: whether it erases. */
  readonly vault?: boolean;
  /** From where it brings events back for a replay. Default: it reads no archive. */
  readonly archive?: EventArchive | undefined;
  /** With it, whoever may invoke the function may erase anybody. Default: it erases nobody. */
  readonly erases?: OperatorErasesProps;
}

/** What erases persons by a person's order, as the service's own function does it. */
export interface OperatorErasesProps {
  /** With a log of erasures. It is given the right to write there, and no class of data. */
  readonly keys: ISealingKeys;
  /** As `defineClasses` takes them. */
  readonly classes: Classes;
  /** Columns that are cleared when a person is erased, as `defineErasable` takes them. */
  readonly erasable: readonly ErasableColumns[];
  /** Roles of the database with `select` on key, subject and columns of `erasable`, and `update` of the columns. */
  readonly roles: readonly string[];
  /**
   * SQL function of yours, `schema.name(kind text, id text) returns jsonb`, that says from when the days count for which classes must be kept: `{"tax": "2027-01-01T00:00:00Z"}`. Default: they
   * count from the request.
   */
  readonly keptSince?: string;
  /** How long an erasure can be cancelled before it is done; whole seconds. Default: none. */
  readonly delay?: Duration;
}

/** A count over a whole event table, and the slowest act. */
const LONGEST_COMMAND = Duration.minutes(5);
/** One a call; so many people at once. */
const CONNECTIONS = 3;
/** Whoever erases has a second one. */
const CONNECTIONS_ERASING = 6;

/**
 * The function through which people look and act: what is parked, held or blocked, redrive, skip, replay, dead letters, keys, erasures. It has no address and no
 * schedule: whoever IAM lets invoke it is an operator, and may do all of it. Each call is audited.
 *
 * @example operator.grantInvoke(Role.fromRoleName(stack, 'OnCall', 'on-call'))
 */
export class Operator extends Construct {
  readonly function: LambdaFunction;

  constructor(scope: Construct, id: string, props: OperatorProps) {
    super(scope, id);
    const { installation, database, queues = {}, inbox = true, archive, erases, vault = erases !== undefined } = props;
    this.function = new NodeFunction(this, 'Function', {
      ...props,
      functionName: `${installation}-operator`,
      entry: { own: 'operator' },
      serviceName: 'operator',
      description: 'Looks at and acts upon what waits for a person; each call is audited',
      timeout: LONGEST_COMMAND,
      environment: {
        OPERATOR_QUEUES: Stack.of(this).toJsonString(
          Object.fromEntries(
            Object.entries(queues).map(([name, { queue, deadLetterQueue }]) => [
              name,
              { queue: queue.queueUrl, deadLetters: deadLetterQueue.queueUrl },
            ]),
          ),
        ),
        OPERATOR_INBOX: String(inbox),
        OPERATOR_VAULT: String(vault),
        OUTBOX_INSTALLATION: installation,
        ...(archive && { OPERATOR_ARCHIVE: `s3://${archive.bucket.bucketName}` }),
        ...(erases && erasing(erases)),
      },
    });
    // Whoever invokes it waits for the answer. Asked without waiting for one, it is not to do the same again by itself.
    this.function.configureAsyncInvoke({ retryAttempts: 0, maxEventAge: Duration.minutes(1) });
    for (const { queue, deadLetterQueue } of Object.values(queues)) {
      deadLetterQueue.grant(
        this.function,
        'sqs:ReceiveMessage',
        'sqs:DeleteMessage',
        'sqs:ChangeMessageVisibility',
        'sqs:GetQueueAttributes',
      );
      queue.grant(this.function, 'sqs:SendMessage', 'sqs:GetQueueAttributes');
    }
    archive?.grantRead(this.function);
    database.connect(
      this.function,
      {
        user: 'sealed_operator',
        roles: [
          'outbox_operator',
          ...(archive ? ['outbox_replayer'] : []),
          ...(inbox ? ['inbox_operator'] : []),
          ...(vault ? ['vault_operator'] : []),
          // It tells consumers that a person was erased.
          ...(erases ? ['outbox_writer', ...erases.roles] : []),
        ],
        sealing: erases && { keys: erases.keys, erases: true },
      },
      erases ? CONNECTIONS_ERASING : CONNECTIONS,
    );
  }

  /** Makes somebody an operator. */
  grantInvoke(grantee: IGrantable): Grant {
    return this.function.grantInvoke(grantee);
  }
}

/** As `operatorConfig` and `functionErasure` read it. */
function erasing({ classes, erasable, keptSince, delay }: OperatorErasesProps): Record<string, string> {
  return {
    OPERATOR_ERASES: JSON.stringify({
      classes: defineClasses(classes),
      erasable: defineErasable(erasable),
      ...(keptSince !== undefined && { keptSince }),
    }),
    ERASURE_DELAY_SECONDS: String((delay ?? Duration.seconds(0)).toSeconds()),
  };
}
