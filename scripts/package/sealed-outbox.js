#!/usr/bin/env node
const [command, ...words] = process.argv.slice(2);
const commands = {
  generate: 'compiles the JSON Schemas of a catalogue to validators',
  migrate: 'brings a database up to this version, or prints the SQL',
  ops: 'looks at what waits for a person, and acts upon it, through the Operator function on AWS',
};

if (command !== undefined && Object.hasOwn(commands, command)) {
  process.argv.splice(2, process.argv.length, ...words);
  await import(`./${command}.js`);
} else {
  const lines = Object.entries(commands).map(([name, says]) => `  ${name.padEnd(9)} ${says}`);
  console.log(`Usage: npx sealed-outbox <command> …\n\n${lines.join('\n')}\n\nEach tells more with --help.`);
  process.exitCode = command === undefined || command === '--help' ? 0 : 2;
}
