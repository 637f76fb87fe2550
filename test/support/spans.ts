import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import {
  type Attributes,
  type AttributeValue,
  context,
  type Context,
  type ContextManager,
  type Link,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  type SpanStatus,
  SpanStatusCode,
  trace,
  type Tracer,
} from '@opentelemetry/api';

/** A span as an SDK would export it. */
export interface RecordedSpan {
  readonly name: string;
  readonly kind: SpanKind;
  readonly context: SpanContext;
  readonly parent: SpanContext | undefined;
  readonly links: Link[];
  readonly attributes: Attributes;
  status: SpanStatus;
  ended: boolean;
}

/**
 * Stands in for an SDK: registers what OpenTelemetry's API asks for, and keeps every span. Once per file; a test clears what others left with
 * `spans.length = 0`.
 */
export function recordSpans(): RecordedSpan[] {
  const spans: RecordedSpan[] = [];
  context.setGlobalContextManager(contextManager());
  trace.setGlobalTracerProvider({ getTracer: () => recordingTracer(spans) });
  return spans;
}

/** `traceparent` as it would name a recorded span. */
export function nameOf({ context: { traceId, spanId } }: RecordedSpan): string {
  return `00-${traceId}-${spanId}-01`;
}

function recordingTracer(spans: RecordedSpan[]): Tracer {
  const startSpan: Tracer['startSpan'] = (name, options = {}, within = context.active()) => {
    const parent = trace.getSpanContext(within);
    const recorded: RecordedSpan = {
      name,
      kind: options.kind ?? SpanKind.INTERNAL,
      context: {
        traceId: parent?.traceId ?? randomBytes(16).toString('hex'),
        spanId: randomBytes(8).toString('hex'),
        traceFlags: 1,
      },
      parent,
      links: [...(options.links ?? [])],
      attributes: { ...options.attributes },
      status: { code: SpanStatusCode.UNSET },
      ended: false,
    };
    spans.push(recorded);
    return spanOf(recorded);
  };
  return { startSpan, startActiveSpan: () => unused() };
}

function spanOf(recorded: RecordedSpan): Span {
  const span: Span = {
    spanContext: () => recorded.context,
    setAttribute(key: string, value: AttributeValue) {
      recorded.attributes[key] = value;
      return span;
    },
    setAttributes(attributes) {
      Object.assign(recorded.attributes, attributes);
      return span;
    },
    setStatus(status) {
      recorded.status = status;
      return span;
    },
    addLink(link) {
      recorded.links.push(link);
      return span;
    },
    addLinks(links) {
      recorded.links.push(...links);
      return span;
    },
    end() {
      recorded.ended = true;
    },
    isRecording: () => !recorded.ended,
    addEvent: unused,
    updateName: unused,
    recordException: unused,
  };
  return span;
}

function contextManager(): ContextManager {
  const storage = new AsyncLocalStorage<Context>();
  const manager: ContextManager = {
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, work, self, ...args) => storage.run(active, () => work.apply(self, args)),
    bind: (_active, target) => target,
    enable: () => manager,
    disable: () => manager,
  };
  return manager;
}

/** What this library must not call: an exception's message may quote a payload. */
function unused(): never {
  throw new Error('the library does not use this');
}
