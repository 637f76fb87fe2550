import { randomUUID } from 'node:crypto';

/** What the API was asked to do and said that it did: the driver's own record, kept apart from any table. */
export interface SentInvoice {
  readonly id: string;
  readonly totalMinor: number;
  /** Sum of the payments that the API accepted. */
  readonly paidMinor: number;
  readonly payments: number;
}

export interface Traffic {
  readonly invoices: readonly SentInvoice[];
  readonly requests: number;
  /** Requests that were sent again with the same idempotency key and answered as the first time. */
  readonly repeats: number;
  /** Answers that were not what they must be; empty when all is well. */
  readonly wrong: readonly string[];
}

export interface TrafficPlan {
  readonly invoices: number;
  /** Invoices that are worked on at the same time. */
  readonly lanes: number;
}

interface Answer {
  readonly status: number;
  readonly replayed: boolean;
  readonly text: string;
  readonly body: Record<string, unknown>;
}

const PRICE_MINOR = 1_000;

/** Stands in what is personal, and nowhere else. */
export const MARKER = 'Kanarya-4711';

/** The customer that all of them name. In the order in which the API answers. */
export const CUSTOMER = {
  name: `Ada ${MARKER}`,
  email: `${MARKER}@lovelace.example`,
  address: `${MARKER} Sokak 1, Istanbul`,
  taxId: '4711081547',
  iban: 'TR330006100519786457844711',
} as const;

/** An invoice as a client sends it; `pieces` decides the total. */
export function invoiceBody(pieces: number): Record<string, unknown> {
  return {
    customerId: randomUUID(),
    customer: CUSTOMER,
    currency: 'EUR',
    dueOn: '2030-01-31',
    note: `${MARKER} pays in person`,
    lines: [
      { description: `Consulting for ${MARKER}, hours`, quantity: pieces, unitPriceMinor: PRICE_MINOR },
      { description: 'Travel', quantity: 1, unitPriceMinor: 250 },
    ],
  };
}

/**
 * Sends what real clients send, good and bad: invoices and payments for many aggregates at once, payments of one
 * invoice side by side, repeats of a request, and a key that is used for something else.
 */
export async function sendTraffic(apiUrl: string, plan: TrafficPlan): Promise<Traffic> {
  const wrong: string[] = [];
  const counts = { requests: 0, repeats: 0 };
  const post = async (path: string, key: string, body: unknown): Promise<Answer> => {
    counts.requests++;
    return postJson(`${apiUrl}${path}`, key, body);
  };
  const expect = (what: string, answer: Answer, status: number): boolean => {
    if (answer.status === status) return true;
    wrong.push(`${what}: ${answer.status} instead of ${status} (${answer.text.slice(0, 200)})`);
    return false;
  };
  /** Sends it again with the same key: the same answer must come, and nothing may happen a second time. */
  const again = async (path: string, key: string, body: unknown, first: Answer): Promise<void> => {
    const second = await post(path, key, body);
    counts.repeats++;
    if (second.text !== first.text || !second.replayed)
      wrong.push(`${path}: a repeated key was not answered as the first time`);
  };

  const one = async (number: number): Promise<SentInvoice | undefined> => {
    const key = randomUUID();
    const body = invoiceBody(number + 1);
    const issued = await post('/invoices', key, body);
    if (!expect('POST /invoices', issued, 201)) return undefined;
    const id = String(issued.body['id']);
    const totalMinor = Number(issued.body['totalMinor']);
    const path = `/invoices/${id}/payments`;
    if (number % 2 === 0) await again('/invoices', key, body, issued);
    if (number % 4 === 1) expect('POST /invoices with a used key', await post('/invoices', key, invoiceBody(9)), 409);

    const paid: number[] = [];
    const pay = async (amountMinor: number, repeat: boolean): Promise<void> => {
      const paymentKey = randomUUID();
      const answer = await post(path, paymentKey, { amountMinor });
      if (!expect(`POST ${path}`, answer, 201)) return;
      paid.push(amountMinor);
      if (repeat) await again(path, paymentKey, { amountMinor }, answer);
    };
    await Promise.all([pay(100, number % 3 === 0), pay(150, false)]);
    if (number % 2 === 1) await pay(totalMinor - 250, number % 3 === 1);
    expect('a payment of more than is owed', await post(path, randomUUID(), { amountMinor: totalMinor + 1 }), 409);
    return { id, totalMinor, paidMinor: paid.reduce((sum, amount) => sum + amount, 0), payments: paid.length };
  };

  const invoices: SentInvoice[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < plan.invoices) {
      const sent = await one(next++);
      if (sent !== undefined) invoices.push(sent);
    }
  };
  await Promise.all(Array.from({ length: plan.lanes }, lane));
  return { invoices, wrong, ...counts };
}

/** Sends one invoice and nothing else; its id. */
export async function sendInvoice(apiUrl: string): Promise<string> {
  const answer = await postJson(`${apiUrl}/invoices`, randomUUID(), invoiceBody(1));
  if (answer.status !== 201) throw new Error(`POST /invoices: ${answer.status} ${answer.text.slice(0, 500)}`);
  return String(answer.body['id']);
}

export async function postJson(url: string, key: string, body: unknown): Promise<Answer> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(30_000),
  });
  const text = await response.text();
  return {
    status: response.status,
    replayed: response.headers.get('idempotency-replayed') === 'true',
    text,
    body: parse(text),
  };
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {}; // the status says that it is wrong; the text is shown
  }
}
