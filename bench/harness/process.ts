import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/**
 * Parts of a benchmark run in processes of their own, so that none of them waits for another one's JavaScript. Parent and child
 * exchange questions and answers as plain data.
 */
export interface Child {
  readonly pid: number;
  /** Asks for one of the child's answers; rejects when it throws, or when the child ends first. */
  ask<T>(question: string, input?: unknown): Promise<T>;
  /** Ends the process. Safe to call twice. */
  stop(): Promise<void>;
}

interface Question {
  readonly id: number;
  readonly question: string;
  readonly input: unknown;
}

interface Answer {
  readonly id: number;
  readonly answer?: unknown;
  readonly error?: string;
}

const running = new Set<Child>();

/** Starts a file beside `bench/main.ts` as a child. */
export function startChild(file: string, nodeOptions: readonly string[] = []): Child {
  const child = fork(fileURLToPath(new URL(`../${file}`, import.meta.url)), {
    execArgv: [...nodeOptions],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    // As in Lambda, whose environment names the SDK's retry mode and little else.
    env: { ...process.env, NODE_ENV: 'production' },
  });
  const open = new Map<number, PromiseWithResolvers<unknown>>();
  let ids = 0;
  const ended = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      running.delete(handle);
      for (const { reject } of open.values()) reject(new Error(`${file} ended early: ${signal ?? code}`));
      resolve();
    });
  });
  child.on('message', ({ id, answer, error }: Answer) => {
    const waiting = open.get(id);
    open.delete(id);
    if (error === undefined) waiting?.resolve(answer);
    else waiting?.reject(new Error(`${file}: ${error}`));
  });
  const handle: Child = {
    pid: child.pid ?? -1,
    ask<T>(question: string, input?: unknown): Promise<T> {
      const id = (ids += 1);
      const waiting = Promise.withResolvers<unknown>();
      open.set(id, waiting);
      child.send({ id, question, input } satisfies Question);
      return waiting.promise as Promise<T>;
    },
    stop() {
      // SIGTERM would end it before a CPU profile is written; without its parent it ends by itself.
      if (child.connected) child.disconnect();
      return ended;
    },
  };
  running.add(handle);
  return handle;
}

/** Ends all that are left, after a failure or Ctrl-C. */
export async function stopChildren(): Promise<void> {
  await Promise.all([...running].map((child) => child.stop()));
}

/** The child's side: answers questions by name until the parent lets go. */
// oxlint-disable-next-line typescript/no-explicit-any -- what is asked is between the two files
export function answer(answers: Readonly<Record<string, (input: any) => unknown>>): void {
  process.on('message', ({ id, question, input }: Question) => {
    const respond = async (): Promise<unknown> => answers[question]?.(input);
    respond().then(
      (result) => process.send?.({ id, answer: result } satisfies Answer),
      (error: unknown) =>
        process.send?.({
          id,
          error: error instanceof Error ? (error.stack ?? error.message) : 'unknown',
        } satisfies Answer),
    );
  });
  process.once('disconnect', () => process.exit());
}

/** Milliseconds since 1970 with a fraction, comparable between processes of one machine. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}
