import type { EventMetadata } from '../../../shared/events/index.ts';
import { activeTraceparent, inSpan, isTraceparent, traceparentOfXray } from '../../../shared/telemetry/index.ts';
import type { Answer } from './problem.ts';
import { header, type HttpEvent } from './request.ts';
import type { Service } from './service.ts';

/** The caller's trace: its own header, or what AWS makes of it on the way. One that is malformed is as good as none. */
function incomingTrace(service: Service, event: HttpEvent): string | undefined {
  const given = header(event, 'traceparent');
  if (given !== undefined && isTraceparent(given)) return given;
  return traceparentOfXray(header(event, 'x-amzn-trace-id')) ?? traceparentOfXray(service.lambdaTrace());
}

/** What every event of the request carries. Where a span is active `append` sees to it; without an SDK the caller's trace is handed on. */
export function traceMetadata(service: Service, event: HttpEvent): EventMetadata {
  const traceparent = activeTraceparent() === undefined ? incomingTrace(service, event) : undefined;
  return traceparent === undefined ? {} : { traceparent };
}

/** Answers a request in a span, which continues that of the function's own instrumentation, or else the caller's. */
export function inRequestSpan(service: Service, event: HttpEvent, answer: () => Promise<Answer>): Promise<Answer> {
  const { routeKey, requestContext } = event;
  const { method } = requestContext.http;
  const known = routeKey.startsWith(`${method} `);
  const attributes = {
    'http.request.method': method,
    ...(known && { 'http.route': routeKey.slice(method.length + 1) }),
  };
  const parent = activeTraceparent() ?? incomingTrace(service, event);
  return inSpan(known ? routeKey : method, { kind: 'server', attributes, parent }, async (span) => {
    const answered = await answer();
    span.set({ 'http.response.status_code': answered.status });
    if (answered.status >= 500) span.fail(String(answered.status));
    return answered;
  });
}
