import { setTimeout as delay } from 'node:timers/promises';
import { SealedOutboxError } from '../shared/errors/index.ts';
import { ask } from './cloud/ask.ts';
import { CALL } from './cloud/call.ts';
import { targetOf } from './cloud/target.ts';
import { carryOut, EXIT, type Terminal } from './ops/carry-out.ts';
import { helpOf, overview } from './ops/help.ts';
import { operatorOf } from './ops/invoke.ts';
import { parse, type Parsed, UsageError } from './ops/parse.ts';

const terminal: Terminal = {
  print: (text) => console.log(text),
  note: (text) => console.error(text),
  ask: process.stdin.isTTY ? ask : null,
  wait: delay,
};

/** @returns the process's exit code. */
async function main(words: readonly string[]): Promise<number> {
  let parsed: Parsed;
  try {
    parsed = parse(words);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const help = error.command === undefined ? '' : `${error.command} `;
    console.error(`${error.message}\n${CALL} ${help}--help tells how.`);
    return EXIT.usage;
  }
  if ('help' in parsed) {
    console.log(parsed.help === null ? overview() : helpOf(parsed.help));
    return EXIT.done;
  }
  const { order } = parsed;
  try {
    const operator = operatorOf(targetOf(order.target, process.env), order.by);
    try {
      return await carryOut(order, operator.invoke, terminal);
    } finally {
      operator.close();
    }
  } catch (error) {
    if (!(error instanceof SealedOutboxError)) throw error;
    console.error(`${error.message} (${error.code})`);
    return error.code === 'TARGET' ? EXIT.usage : EXIT.failed;
  }
}

process.exitCode = await main(process.argv.slice(2));
