import { Duration, Stack } from 'aws-cdk-lib';
import type { IGrantable, Grant } from 'aws-cdk-lib/aws-iam';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import type { IEventQueue } from './event-queue.ts';
import { type FunctionDefaults, NodeFunction } from './node-function.ts';
import type { OutboxDatabase } from './outbox-database.ts';

export interface OperatorProps extends FunctionDefaults {
  /** The beginning of its name, as `Outbox.installation`: `npm run ops -- --stack` finds it by that. */
  readonly installation: string;
  readonly database: OutboxDatabase;
  /** Queues whose dead letters it may send again: a name, and the queue. Default: none. */
  readonly queues?: Readonly<Record<string, IEventQueue>>;
  /** Whether the consumers' tables are in this database, too. Default: true. */
  readonly inbox?: boolean;
}

/** A count over a whole event table, and the slowest act. */
const LONGEST_COMMAND = Duration.minutes(5);
/** One a call; so many people at once. */
const CONNECTIONS = 3;

/**
 * The function through which people look and act: what is parked, held or blocked, redrive, skip, replay, dead letters. It has no address and no
 * schedule: whoever IAM lets invoke it is an operator, and may do all of it. Each call is audited.
 *
 * @example operator.grantInvoke(Role.fromRoleName(stack, 'OnCall', 'on-call'))
 */
export class Operator extends Construct {
  readonly function: LambdaFunction;

  constructor(scope: Construct, id: string, props: OperatorProps) {
    super(scope, id);
    const { installation, database, queues = {}, inbox = true } = props;
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
      },
    });
    // Whoever invokes it waits for the answer. Asked without waiting for one, it is not to do the same again by itself.
    this.function.configureAsyncInvoke({ retryAttempts: 0, maxEventAge: Duration.minutes(1) });
    for (const { queue, deadLetterQueue } of Object.values(queues)) {
      deadLetterQueue.grant(this.function, 'sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes');
      queue.grant(this.function, 'sqs:SendMessage', 'sqs:GetQueueAttributes');
    }
    database.connect(
      this.function,
      { user: 'sealed_operator', roles: ['outbox_operator', ...(inbox ? ['inbox_operator'] : [])] },
      CONNECTIONS,
    );
  }

  /** Makes somebody an operator. */
  grantInvoke(grantee: IGrantable): Grant {
    return this.function.grantInvoke(grantee);
  }
}
