/** A message, ready to leave. */
export interface Message {
  /** The event's id. */
  readonly eventId: string;
  readonly type: string;
  readonly source: string;
  /** The envelope, as JSON text. */
  readonly body: string;
  /** What counts against `PublisherLimits.bytes`: the body in UTF-8, or what the publisher's `sizeOf` makes of it. */
  readonly bytes: number;
  /** W3C trace context of the event, where it has one. Also in the body. */
  readonly traceparent?: string;
  /** Messages of one group keep their order. */
  readonly groupId: string;
  /** The same for every retry, another one for a redrive or replay. */
  readonly deduplicationId: string;
}

/** What the destination said of one message. */
export type PublishResult =
  | { readonly ok: true; readonly messageId: string }
  | { readonly ok: false; readonly code: string; readonly reason: string };

export interface PublisherLimits {
  /** Messages in one call. */
  readonly entries: number;
  /** Bytes of one message, and of all messages of one call together. */
  readonly bytes: number;
  /** Longest time that one call may take. Milliseconds. */
  readonly timeoutMs: number;
}

/**
 * The port to a queue or bus. An implementation makes one call and never retries: when and whether to send again is the
 * relay's to decide, because order and attempts depend on it.
 */
export interface Publisher {
  readonly limits: PublisherLimits;
  /**
   * Bytes that the destination counts for a message, given one whose `bytes` are those of its body; for destinations that count
   * more than the body.
   */
  sizeOf?(message: Message): number;
  /** Asks whether the destination exists and may be used. Rejects with what is wrong and the remedy. */
  preflight(): Promise<void>;
  /**
   * One call. Resolves with one result per message, in their order, when the destination answered for each; rejects with a
   * PublishError when the call as a whole failed and nothing is known of any message.
   */
  publish(messages: readonly Message[]): Promise<readonly PublishResult[]>;
  close(): void;
}
