/** A janitor that wraps persons' keys anew, in a process of its own, with a KMS that answers at once. */
import pg from 'pg';
import { systemClock } from '../shared/outbox/index.ts';
import { type Kms, type KmsContext, postgresRotation } from '../shared/sealing/index.ts';
import { paceOf } from '../shared/sealing/rotation/pace.ts';
import { rewrapSubjects } from '../shared/sealing/rotation/rewrap.ts';
import { silentLog } from '../shared/telemetry/index.ts';
import { answerQuestions, now } from './harness/process.ts';
import type { RewrapResult, RewrapStart } from './sealing/rewrap.ts';

answerQuestions({
  async run({ connection, vault: name, branches, budgetMs }: RewrapStart): Promise<RewrapResult> {
    const client = new pg.Client(connection);
    await client.connect();
    const kms: Pick<Kms, 'unwrap'> = {
      unwrap: async (_, { version }: KmsContext) => Buffer.from(branches[version] ?? '', 'hex'),
    };
    const vault = postgresRotation(client);
    const [from, to] = await vault.branches();
    if (from === undefined || to === undefined) throw new Error('there are no two branch keys');
    const startedAt = now();
    const cpu = process.cpuUsage();
    const pace = paceOf({ clock: systemClock, budgetMs, log: silentLog });
    const { rewrapped, broken, ended } = await rewrapSubjects({ name, vault, kms: kms as Kms }, from, to, pace);
    const endedAt = now();
    const { user, system } = process.cpuUsage(cpu);
    await client.end();
    if (broken > 0) throw new Error(`${broken} keys did not open`);
    return { startedAt, endedAt, rewrapped, ended, cpuSeconds: (user + system) / 1e6 };
  },
});
