import { SealedOutboxError } from '../shared/errors/index.ts';

/** Something about this machine that the reader can put right: the message is one sentence and ends with the remedy. */
export class LocalCloudProblem extends SealedOutboxError {
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
}

/** The start was interrupted by the person or program that began it. Nothing is wrong. */
export class Interrupted extends SealedOutboxError {
  constructor() {
    super('LOCAL_INTERRUPTED', 'The start was interrupted.');
  }
}

/** Turns what the operating system says into the sentence a reader can act on; anything else comes back as it was. */
export function explain(error: unknown): unknown {
  const code = (error as { code?: unknown } | null)?.code;
  const message = error instanceof Error ? error.message : String(error);
  if (code === 'ENOSPC' || /no space left on device|disk quota exceeded/i.test(message)) {
    return new LocalCloudProblem(
      'LOCAL_DISK_FULL',
      'The disk is full: free about 1 GB (or set TMPDIR to a disk that has it) and run `npm start` again.',
      { cause: error },
    );
  }
  return error;
}
