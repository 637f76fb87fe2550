import type { SpanContext } from '@opentelemetry/api';

/** `00-<trace id>-<parent id>-<flags>`; an id of zeros alone is no id. */
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;
const XRAY_ROOT = /^1-([0-9a-f]{8})-([0-9a-f]{24})$/;

/** A W3C trace context of version 00. */
export function isTraceparent(text: string): boolean {
  return TRACEPARENT.test(text);
}

/** The span that a `traceparent` names, or undefined where it is none. */
export function spanContextOf(traceparent: string | undefined): SpanContext | undefined {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}

/** The `traceparent` that names a span, or undefined for a span that is none: without an SDK they have no ids. */
export function traceparentOf({ traceId, spanId, traceFlags }: SpanContext): string | undefined {
  const traceparent = `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
  return isTraceparent(traceparent) ? traceparent : undefined;
}

/** A W3C `traceparent` as AWS's services write it, or undefined where it is none: a trace is never worth an event. */
export function xrayTraceHeader(traceparent: string): string | undefined {
  const span = spanContextOf(traceparent);
  if (span === undefined) return undefined;
  const { traceId, spanId, traceFlags } = span;
  return `Root=1-${traceId.slice(0, 8)}-${traceId.slice(8)};Parent=${spanId};Sampled=${traceFlags & 1}`;
}

/**
 * The other way: what AWS's services put into `X-Amzn-Trace-Id`, `AWSTraceHeader` and `_X_AMZN_TRACE_ID`. Undefined for a header that names
 * no parent, as a load balancer or a gateway starts one: there is no span that a `traceparent` could name.
 */
export function traceparentOfXray(header: string | undefined): string | undefined {
  const fields = new Map<string, string>();
  for (const part of (header ?? '').split(';')) {
    const [name = '', value = ''] = part.trim().split('=', 2);
    fields.set(name, value);
  }
  const [, time, random] = XRAY_ROOT.exec(fields.get('Root') ?? '') ?? [];
  const sampled = fields.get('Sampled') === '1' ? '01' : '00';
  const traceparent = `00-${time}${random}-${fields.get('Parent')}-${sampled}`;
  return isTraceparent(traceparent) ? traceparent : undefined;
}
