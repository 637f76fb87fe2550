/**
 * Opens when it is first asked, once for all who ask. One that fails is forgotten, so that whoever asks next tries again: a sandbox lives for hours, and what
 * failed at its start (a file that could not be read, a name that was not found) mostly passes.
 */
export function openedOnce<T>(open: () => Promise<T>): () => Promise<T> {
  let opened: Promise<T> | undefined;
  return () => {
    opened ??= open().catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };
}
