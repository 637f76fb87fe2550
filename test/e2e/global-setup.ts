import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { type LocalCloud, startLocalCloud } from '../../local/cloud.ts';
import { ROOT } from '../../local/environment.ts';
import { openSupervisor } from '../../local/processes/supervisor.ts';
import { createReport } from '../../local/report.ts';

declare module 'vitest' {
  interface ProvidedContext {
    cloud: LocalCloud;
  }
}

/** The deployed alarms have periods of 10 s: here they take 2, and the monitor measures every second. */
const ALARM_SPEED = 5;

/** One deployed local cloud for the whole run, in a directory of its own, so that a person's `npm start` is left alone. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const report = createReport({ write: (line) => console.log(line), verbose: false, now: () => performance.now() });
  const supervisor = await openSupervisor(join(ROOT, '.local', 'e2e'), report);
  try {
    const cloud = await startLocalCloud({
      supervisor,
      report,
      alarmSpeed: ALARM_SPEED,
      onAlarm: ({ name, from, to }) => report.line(`  Alarm ${name}: ${from} → ${to}`),
    });
    project.provide('cloud', cloud);
  } catch (error) {
    await supervisor.stop();
    throw error; // its message ends with the last lines of what failed
  }
  return async () => supervisor.stop();
}
