/**
 * What an operator may order, as plain data: `commands` by name. The function (`functions/operator`) has one line for each that runs it, the command
 * line (`cli/ops.ts`) its words and help, and a test holds the runbooks to it. To add a command: an entry here, a runner there.
 */
import type { DataOf } from '../events/index.ts';
import type { Command } from './command.ts';
import { inboxCommands } from './inbox-commands.ts';
import { outboxCommands } from './outbox-commands.ts';
import { resendCommands } from './resend-commands.ts';
import { vaultCommands } from './vault-commands.ts';

export type { ArgumentSchema, Command } from './command.ts';
export type { inboxCommands } from './inbox-commands.ts';
export type { outboxCommands } from './outbox-commands.ts';
export type { resendCommands } from './resend-commands.ts';
export type { vaultCommands } from './vault-commands.ts';
export { type OperationAnswer, type OperationRequest, recordedArguments, requestSchema } from './request.ts';

const table = { ...outboxCommands, ...inboxCommands, ...resendCommands, ...vaultCommands };

export type CommandName = keyof typeof table;

/** What a command is given, by its schema. */
export type ArgumentsOf<Name extends CommandName> = DataOf<(typeof table)[Name]['arguments']>;

export const commands: Readonly<Record<CommandName, Command>> = table;

export const commandNames = Object.keys(table) as readonly CommandName[];

export function isCommandName(name: string): name is CommandName {
  return Object.hasOwn(table, name);
}
