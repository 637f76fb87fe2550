import { CallNotDoneError, CallRefusedError, type LookupAnswer } from '../../../shared/inbox/index.ts';

export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  /** What it is about, for those who look for it at the provider. */
  readonly reference: string;
}

/** What the provider says of a mail that it took. */
export interface AcceptedMail {
  readonly id: string;
  /** The address that it was accepted for. */
  readonly to: string;
}

/** The mail provider, as far as notifications need it. */
export interface MailClient {
  send(key: string, mail: Mail, signal: AbortSignal): Promise<AcceptedMail>;
  find(key: string, signal: AbortSignal): Promise<LookupAnswer<AcceptedMail>>;
}

/** @param url of the provider, without a slash at the end */
export function mailClient(url: string): MailClient {
  return {
    async send(key, mail, signal) {
      const response = await fetch(`${url}/mails`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': key },
        body: JSON.stringify(mail),
        signal,
      });
      if (response.ok) return accepted(response);
      await response.body?.cancel();
      throw refusal(response.status);
    },
    async find(key, signal) {
      const response = await fetch(`${url}/mails?idempotency-key=${encodeURIComponent(key)}`, { signal });
      if (response.ok) return { kind: 'done', answer: await accepted(response) };
      await response.body?.cancel();
      if (response.status === 404) return { kind: 'not-done' };
      throw new Error(`the mail provider answered a look-up with ${response.status}`);
    },
  };
}

/** Its answer may hold more, the text for instance: only this goes on from here. */
async function accepted(response: Response): Promise<AcceptedMail> {
  const { id, to } = (await response.json()) as { id?: unknown; to?: unknown };
  if (typeof id !== 'string' || typeof to !== 'string') {
    throw new Error('the mail provider answered without an id or an address');
  }
  return { id, to };
}

/**
 * What a status says about the mail. 408, 409 and 425 pass; so do 429 and 503, with which a provider refuses before it does anything. Of any
 * other 5xx nobody knows how far it came.
 */
function refusal(status: number): Error {
  if (status === 429 || status === 503) return new CallNotDoneError();
  if (status >= 500 || [408, 409, 425].includes(status)) return new Error(`the mail provider answered ${status}`);
  return new CallRefusedError();
}
