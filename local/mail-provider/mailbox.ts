import { createHash, randomUUID } from 'node:crypto';

/** What a client asks to be sent. */
export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  /** The client's own reference, such as an invoice's id. */
  readonly reference: string;
}

export interface SentMail extends Mail {
  readonly id: string;
  readonly idempotencyKey: string;
}

export type Sent =
  | { readonly kind: 'sent' | 'replayed'; readonly mail: SentMail }
  /** The key was used for another mail. */
  | { readonly kind: 'key-reused' };

/** Everything that was sent, by idempotency key. It forgets nothing. */
export interface Mailbox {
  send(idempotencyKey: string, mail: Mail): Sent;
  find(idempotencyKey: string): SentMail | undefined;
  all(): readonly SentMail[];
}

export function createMailbox(): Mailbox {
  const sent = new Map<string, { mail: SentMail; hash: string }>();
  return {
    send(idempotencyKey, mail) {
      const hash = createHash('sha256')
        .update(JSON.stringify([mail.to, mail.subject, mail.text, mail.reference]))
        .digest('hex');
      const before = sent.get(idempotencyKey);
      if (before !== undefined) {
        return before.hash === hash ? { kind: 'replayed', mail: before.mail } : { kind: 'key-reused' };
      }
      const stored = { ...mail, id: randomUUID(), idempotencyKey };
      sent.set(idempotencyKey, { mail: stored, hash });
      return { kind: 'sent', mail: stored };
    },
    find: (idempotencyKey) => sent.get(idempotencyKey)?.mail,
    all: () => [...sent.values()].map(({ mail }) => mail),
  };
}

/** The mail in a request's body; undefined where it is none. */
export function mailFrom(body: string): Mail | undefined {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { to, subject, text, reference } = value as Record<string, unknown>;
  if (typeof to !== 'string' || !/^[^@\s]+@[^@\s]+$/.test(to)) return undefined;
  if (typeof subject !== 'string' || typeof text !== 'string' || typeof reference !== 'string') return undefined;
  return { to, subject, text, reference };
}
