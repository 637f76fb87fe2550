import { revalidate } from '../../../shared/database/index.ts';
import { seesClearValues } from './caller.ts';
import { eraseCustomer } from './erase-customer.ts';
import { answerOnce, type RequestHashes, requestHashes, type SealAnswer } from './idempotency.ts';
import { issueInvoice, prepareInvoice, sealInvoiceAnswer } from './issue-invoice.ts';
import { openApiText } from './openapi.ts';
import { type Answer, ProblemError } from './problem.ts';
import { readInvoice } from './read-invoice.ts';
import { recordPayment } from './record-payment.ts';
import { bodyBytes, type HttpEvent, idempotencyKey, parseBody, pathId, UUID } from './request.ts';
import { openRepeat } from './sealed-answer.ts';
import { searchInvoices } from './search-invoices.ts';
import type { Service } from './service.ts';
import { traceMetadata } from './trace.ts';
import { type Unit, unitOfWork } from './unit-of-work.ts';

type Route = (service: Service, event: HttpEvent) => Promise<Answer>;

/** Every route, under the key that API Gateway gives it. */
export const routes: Readonly<Record<string, Route>> = {
  'POST /invoices': async (service, event) => {
    const key = idempotencyKey(event);
    const bytes = bodyBytes(event);
    const body = parseBody(bytes, 'issueInvoice');
    await revalidate(service.pool);
    const prepared = await prepareInvoice(service, body);
    return write(service, event, {
      key,
      hashes: requestHashes('POST', '/invoices', bytes),
      work: (unit) => issueInvoice(service, unit, prepared, body),
      seal: sealInvoiceAnswer(prepared, key, body),
    });
  },
  // A search is a POST: what is in a URL is in the logs of all on the way.
  'POST /invoices/search': async (service, event) => {
    const body = parseBody(bodyBytes(event), 'searchInvoices');
    await revalidate(service.pool);
    return searchInvoices(service, body, seesClearValues(service.callers, event));
  },
  'GET /invoices/{id}': async (service, event) => {
    const id = pathId(event);
    await revalidate(service.pool);
    return readInvoice(service, id, seesClearValues(service.callers, event));
  },
  'POST /invoices/{id}/payments': async (service, event) => {
    const id = pathId(event);
    const key = idempotencyKey(event);
    const bytes = bodyBytes(event);
    const body = parseBody(bytes, 'recordPayment');
    await revalidate(service.pool);
    return write(service, event, {
      key,
      hashes: requestHashes('POST', `/invoices/${id}/payments`, bytes),
      work: (unit) => recordPayment(service, unit, id, body),
    });
  },
  'DELETE /customers/{id}': async (service, event) => {
    const id = pathId(event, 'customer');
    await revalidate(service.pool);
    return eraseCustomer(service, id);
  },
  'GET /openapi.json': async () => ({
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: openApiText(),
  }),
};

/** What a request is to do, once for its idempotency key. */
interface Write {
  readonly key: string;
  readonly hashes: RequestHashes;
  readonly work: (unit: Unit) => Promise<Answer>;
  readonly seal?: SealAnswer;
}

async function write(service: Service, event: HttpEvent, { key, hashes, work, seal }: Write): Promise<Answer> {
  const answered = await unitOfWork(service.pool, traceMetadata(service, event), (unit) =>
    answerOnce(unit.tx, key, hashes, () => work(unit), seal),
  );
  return 'sealed' in answered ? openRepeat(service.keyring, key, hashes, answered) : answered;
}

/** Finds the route. @throws ProblemError 404, 405 */
export function routeOf(event: HttpEvent): Route {
  const route = Object.hasOwn(routes, event.routeKey) ? routes[event.routeKey] : undefined;
  if (route !== undefined) return route;
  // The gateway's catch-all route ends here.
  const allowed = Object.keys(routes)
    .map((key) => key.split(' ', 2) as [string, string])
    .filter(([, template]) => matches(template, event.rawPath))
    .map(([method]) => method);
  if (allowed.length > 0) {
    throw new ProblemError('method-not-allowed', `This path takes ${allowed.join(', ')} only.`, {
      headers: { allow: allowed.join(', ') },
    });
  }
  throw new ProblemError('not-found', 'There is nothing at this path.');
}

const words = new Set(Object.keys(routes).flatMap((key) => key.split('/').slice(1)));

/** A path as an answer may repeat it: callers log answers, and what else they put into a path may be personal. */
export function shownPath(path: string): string {
  return path
    .split('/')
    .map((part) => (part === '' || words.has(part) || UUID.test(part) ? part : '-'))
    .join('/');
}

function matches(template: string, path: string): boolean {
  const wanted = template.split('/');
  const parts = path.split('/');
  return parts.length === wanted.length && wanted.every((part, index) => part.startsWith('{') || part === parts[index]);
}
