import { type Command, type CommandName, commandNames, commands } from '../../shared/operations/index.ts';
import { CALL } from '../cloud/call.ts';
import { TARGET_HELP } from '../cloud/target.ts';
import { optionName } from './parse.ts';

const COMMON = `  --json              the whole answer as JSON
  --help              of a command: its arguments and examples`;

const EXIT = `Exit code: 0 done, 1 refused or not confirmed (nothing was changed), 2 wrong use, 3 failed or cut off: \`acts list\` tells what is known.`;

/** Every command in one line each. */
export function overview(): string {
  const width = Math.max(...commandNames.map((name) => name.length));
  const lines = (acts: boolean): string =>
    commandNames
      .filter((name) => (commands[name].kind === 'act') === acts)
      .map((name) => `  ${name.padEnd(width)}  ${commands[name].summary}`)
      .join('\n');
  return `Looks at what waits for a person, and acts upon it: ${CALL} <command> …

Look:
${lines(false)}

Act (each needs --reason "…"; what cannot be undone asks first):
${lines(true)}

${COMMON}

${TARGET_HELP}

${EXIT}
`;
}

export function helpOf(name: CommandName): string {
  const command = commands[name];
  const places = command.places.map((place) => ` <${optionName(place)}>`).join('');
  const rows = [...argumentRows(command), ...commonRows(command)];
  const width = Math.max(...rows.map(([option]) => option.length));
  const examples = command.examples.map((words) => `  ${CALL} ${name} ${words}`.trimEnd()).join('\n');
  const confirm =
    command.confirm === undefined
      ? ''
      : `\nCannot be undone. ${command.confirm.because} It asks for <${optionName(command.confirm.type)}> before.\n`;
  return `${command.summary}

Usage: ${CALL} ${name}${places}${command.kind === 'act' ? ' --reason <text>' : ''}

${rows.map(([option, says]) => `  ${option.padEnd(width)}  ${says}`).join('\n')}

${TARGET_HELP}
${confirm}
Examples:
${examples}

${EXIT}
`;
}

function argumentRows({ arguments: { properties, required }, places }: Command): (readonly [string, string])[] {
  return Object.entries(properties).map(([field, schema]) => {
    const name = optionName(field);
    const option = places.includes(field) ? `<${name}>` : `--${name}${schema.type === 'boolean' ? '' : ' <…>'}`;
    const must = !places.includes(field) && required.includes(field) ? ' (required)' : '';
    return [option, `${schema.description}${must}`] as const;
  });
}

function commonRows({ kind, confirm, before }: Command): (readonly [string, string])[] {
  return [
    ...(kind === 'act' ? ([['--reason <text>', 'why, 1 to 500 characters; kept in the audit']] as const) : []),
    ['--by <text>', 'who, in place of what STS says (AWS) or your user name (local)'] as const,
    ...(confirm === undefined ? [] : [['--yes', 'does not ask'] as const]),
    ...(before === undefined
      ? []
      : [['--dry-run', `shows what would be concerned (${before}) and changes nothing`] as const]),
    ...(kind === 'glance' ? [['--watch', 'again and again, every two seconds'] as const] : []),
    ['--json', 'the whole answer as JSON'] as const,
    ['--help', 'this text'] as const,
  ];
}
