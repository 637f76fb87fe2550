/** A janitor in a process of its own, as a function would run it. */
import pg from 'pg';
import { folderArchive } from '../shared/archive/index.ts';
import { outboxWalks, systemClock } from '../shared/outbox/index.ts';
import { runJanitor } from '../shared/retention/index.ts';
import { noMetrics, silentLog } from '../shared/telemetry/index.ts';
import { answerQuestions, now } from './harness/process.ts';
import type { JanitorResult, JanitorStart } from './janitor/janitor.ts';

const WITHOUT_END_MS = 3_600_000;

answerQuestions({
  async run({ connection, keepSeconds, archiveDirectory }: JanitorStart): Promise<JanitorResult> {
    const client = new pg.Client(connection);
    await client.connect();
    let archivedBytes = 0;
    const metrics = {
      ...noMetrics,
      add: (name: string, _unit: string, value: number): void => {
        if (name === 'ArchivedBytes') archivedBytes += value;
      },
    };
    const archive = archiveDirectory === undefined ? undefined : folderArchive(archiveDirectory);
    const startedAt = now();
    const cpu = process.cpuUsage();
    const { walks } = await runJanitor({
      walks: outboxWalks(client, { keepSeconds, archive, metrics }),
      budgetMs: WITHOUT_END_MS,
      clock: systemClock,
      log: silentLog,
      metrics: noMetrics,
    });
    const endedAt = now();
    const { user, system } = process.cpuUsage(cpu);
    await client.end();
    const [deliveries] = walks;
    if (deliveries?.ended !== 'end') throw new Error(`the janitor did not come to its end: ${deliveries?.ended}`);
    return { startedAt, endedAt, removed: deliveries.removed, archivedBytes, cpuSeconds: (user + system) / 1e6 };
  },
});
