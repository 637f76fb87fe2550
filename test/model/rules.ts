/** The protocol's rules, and the bounds of one exploration. A broken variant turns one of them round. */
export interface Rules {
  /** Rows of a page of the walk. */
  readonly page: number;
  /** Rows of one aggregate that a look-up gives at most. */
  readonly cut: number;
  readonly whenParked: 'block' | 'skip';
  /** A scan asks for everything of an aggregate that is not yet out, not only for what it met. */
  readonly lookUp: boolean;
  /** The next of a chain goes when the queue has acknowledged the one before, not when that was sent. */
  readonly awaitAcknowledgement: boolean;
  /** A retry or a parking never overwrites "published". */
  readonly publishedWins: boolean;
  /** A retry or a parking counts only under the lease under which the message was sent. */
  readonly leaseCounts: boolean;
  /** A scan does not bring back what got its outcome after the scan had begun. */
  readonly rememberOutcomes: boolean;
  /** Relays claim rows instead of leasing partitions. */
  readonly claimRows: boolean;
  /** The stream's row lock makes writers of one aggregate wait for each other. */
  readonly streamLock: boolean;
  /** What a settlement could not write is looked up again. */
  readonly askAgain: boolean;
  /** A chain is looked up again after its parking was applied. */
  readonly lookAfterParking: boolean;
  /** What is blocked behind nothing is set free. */
  readonly unblock: boolean;
  /** An unanswered message of a lost lease takes only its own chain out of memory, not its whole partition. */
  readonly surrenderOne: boolean;
}

export const RULES: Rules = {
  page: 2,
  cut: 3,
  whenParked: 'block',
  lookUp: true,
  awaitAcknowledgement: true,
  publishedWins: true,
  leaseCounts: true,
  rememberOutcomes: true,
  claimRows: false,
  streamLock: true,
  askAgain: true,
  lookAfterParking: true,
  unblock: true,
  surrenderOne: true,
};
