import { afterEach, beforeEach, vi } from 'vitest';
import { mailClient, type AcceptedMail } from '../../functions/sample/notifications/mail-client.ts';
import { type MailProvider, startMailProvider } from '../../local/mail-provider/server.ts';
import type { Connections } from '../../shared/database/index.ts';
import type { CallOptions } from '../../shared/inbox/index.ts';
import { createOnce } from '../../shared/inbox/once.ts';
import type { TestDatabase } from './database.ts';

export const CONSUMER = 'mailer';

/** How a test's calls differ from: the provider is asked, the same key may be sent again, nothing is cut off. */
export interface DeliveryOptions extends Partial<Pick<CallOptions<AcceptedMail, unknown>, 'unanswered' | 'toRecord'>> {
  readonly askProvider?: boolean;
  /** Gives up what is under way when it aborts. */
  readonly givenUp?: AbortSignal;
  readonly remainingMs?: () => number;
  readonly connections?: Connections;
}

/** A provider for each test of a file; the property is the one of the running test. */
export function providerPerTest(): { readonly current: MailProvider } {
  let provider: MailProvider | undefined;
  beforeEach(async () => {
    provider = await startMailProvider();
  });
  afterEach(async () => {
    await provider?.close();
  });
  return {
    get current() {
      if (provider === undefined) throw new Error('no test is running');
      return provider;
    },
  };
}

/** One delivery of an event whose only effect is a mail. */
export async function deliver(
  pool: Connections,
  provider: MailProvider,
  eventId: string,
  options: DeliveryOptions = {},
): Promise<unknown> {
  const { askProvider = true, unanswered = 'retry', givenUp, remainingMs, connections, toRecord } = options;
  const mail = mailClient(provider.url);
  const once = createOnce({
    connections: connections ?? pool,
    consumer: CONSUMER,
    eventId,
    remainingMs: remainingMs ?? (() => 100_000),
    abortAfter: (ms) => givenUp ?? AbortSignal.timeout(ms),
  });
  return once(
    'mail',
    (key, signal) => mail.send(key, { to: 'a@b.invalid', subject: 's', text: 't', reference: eventId }, signal),
    {
      unanswered,
      timeoutMs: 30_000,
      ...(askProvider ? { lookup: (key: string, signal: AbortSignal) => mail.find(key, signal) } : {}),
      ...(toRecord === undefined ? {} : { toRecord }),
    },
  );
}

/** Delivers an event to a provider that will not answer, and gives up when it has the request. What the delivery rejects with. */
export async function deliverInVain(
  pool: Connections,
  provider: MailProvider,
  eventId: string,
  options: DeliveryOptions = {},
): Promise<unknown> {
  const giveUp = new AbortController();
  const before = provider.requests().length;
  const delivery = deliver(pool, provider, eventId, { ...options, givenUp: giveUp.signal });
  const ended = delivery.then(
    () => new Error('it was answered'),
    (error: unknown) => error,
  );
  await vi.waitUntil(() => provider.requests().length > before);
  giveUp.abort(new DOMException('the time is up', 'TimeoutError'));
  return ended;
}

/** What stands in the database about the mail of an event. */
export async function callOf(database: TestDatabase, eventId: string): Promise<unknown> {
  const { rows } = await database.pool('sealed_ledger', 1).query(
    `select state, calls, called_at is not null as called, lease_expires_at > clock_timestamp() as leased, held_reason as reason
         from inbox.external_call where consumer = $1 and event_id = $2`,
    [CONSUMER, eventId],
  );
  return rows[0];
}
