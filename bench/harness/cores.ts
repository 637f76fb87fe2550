import { cpus } from 'node:os';

/** Starts counting; the answer is how many of the machine's cores were busy since then, whoever kept them so. */
export function coresInUse(): () => number {
  const before = busyAndAll();
  return () => {
    const after = busyAndAll();
    return (cpus().length * (after.busy - before.busy)) / (after.all - before.all);
  };
}

function busyAndAll(): { busy: number; all: number } {
  let [busy, all] = [0, 0];
  for (const { times } of cpus()) {
    const used = times.user + times.nice + times.sys + times.irq;
    busy += used;
    all += used + times.idle;
  }
  return { busy, all };
}
