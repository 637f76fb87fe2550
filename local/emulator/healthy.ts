import { setTimeout as delay } from 'node:timers/promises';
import { Interrupted } from '../problem.ts';
import type { Child, Supervisor } from '../processes/supervisor.ts';

/**
 * Waits until `url` answers with success.
 *
 * @param problem the error for a child that has ended or does not answer in time
 */
export async function untilHealthy(
  supervisor: Supervisor,
  child: Child,
  url: string,
  withinMs: number,
  problem: () => Error,
): Promise<void> {
  let ended: number | NodeJS.Signals | undefined;
  child.ended.then(
    (how) => (ended = how),
    () => (ended = 1),
  );
  const deadline = performance.now() + withinMs;
  while (!(await answers(url))) {
    if (supervisor.stopping) throw new Interrupted();
    if (ended !== undefined || performance.now() > deadline) throw problem();
    await delay(50);
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(2_000) });
    await answer.arrayBuffer();
    return answer.ok;
  } catch {
    return false;
  }
}
