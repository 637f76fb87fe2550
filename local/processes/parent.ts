/**
 * Calls `gone` once when the process that started this one has ended: a terminal that is closed or an npm that is killed
 * sends us no signal, and nobody could end us any more.
 */
export function watchParent(gone: () => void, everyMs = 1_000): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    gone();
  }, everyMs);
  timer.unref();
}
