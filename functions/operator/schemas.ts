import { commandNames, commands, requestSchema } from '../../shared/operations/index.ts';

/** What an invocation is checked against, compiled by `npm run generate`: the envelope, and each command's arguments. */
export const schemas: Readonly<Record<string, object>> = {
  request: requestSchema,
  ...Object.fromEntries(commandNames.map((name) => [name, commands[name].arguments])),
};
