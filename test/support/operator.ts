import { SQSClient } from '@aws-sdk/client-sqs';
import { operate } from '../../functions/operator/operate.ts';
import type { Tools } from '../../functions/operator/run/tools.ts';
import type { Queryable } from '../../shared/database/index.ts';
import type { CommandName, OperationAnswer } from '../../shared/operations/index.ts';
import type { TestDatabase } from './database.ts';
import { recordingLog } from './recorders.ts';

const BY = 'arn:aws:sts::111122223333:assumed-role/on-call/ada';

/** The operator's function around one connection as its own user, without Lambda. */
export async function testOperator(
  database: TestDatabase,
  more: Partial<Tools> = {},
  user: 'sealed_operator' | 'sealed_erasing_operator' = 'sealed_operator',
) {
  const client = await database.client(user);
  const log = recordingLog();
  // Commands that ask no queue never reach it.
  const sqs = new SQSClient({
    region: 'us-east-1',
    endpoint: 'http://127.0.0.1:9',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    maxAttempts: 1,
  });
  const tools: Tools = { db: client, sqs, queues: {}, inbox: true, vault: true, budgetMs: 5_000, ...more };
  let requests = 0;
  const send = async (input: unknown, db: Queryable = client): Promise<OperationAnswer> => {
    requests += 1;
    return operate(input, { tools: { ...tools, db }, requestId: `request-${requests}`, log });
  };
  return {
    log,
    send,
    /** Any command; `reason` only for acts. */
    call: async (command: CommandName, args: Readonly<Record<string, unknown>> = {}, reason?: string, db?: Queryable) =>
      send({ command, arguments: args, by: BY, ...(reason !== undefined && { reason }) }, db),
    /** The result of one that must be done. */
    done: async (command: CommandName, args: Readonly<Record<string, unknown>> = {}, reason?: string) => {
      const answer = await send({ command, arguments: args, by: BY, ...(reason !== undefined && { reason }) });
      if (!answer.ok) throw new Error(`${command}: ${answer.code} ${answer.message}`);
      return answer.result as Record<string, never>;
    },
    by: BY,
  };
}
