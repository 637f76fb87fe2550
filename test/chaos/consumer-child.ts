import type { ConsumerProcessOptions } from './consumer-process.ts';
import type { ConsumerReport } from './consumers.ts';
import { spawnProgram } from './program.ts';

/** Runs the consumers in a process of their own until the signal. */
export async function runConsumerChild(
  program: string,
  options: ConsumerProcessOptions,
  onReport: (report: ConsumerReport) => void,
  signal: AbortSignal,
): Promise<void> {
  const { child, ended } = spawnProgram(program, options, (line) => onReport(JSON.parse(line) as ConsumerReport));
  const end = (): void => void child.kill('SIGTERM');
  signal.addEventListener('abort', end);
  const code = await ended;
  signal.removeEventListener('abort', end);
  if (!signal.aborted) throw new Error(`the consumers ended with ${code}`);
}
