import {
  type Attributes,
  context,
  type Context,
  type Link,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
  type TracerProvider,
} from '@opentelemetry/api';
import { spanContextOf, traceparentOf } from './trace-context.ts';

const SCOPE = 'sealed-outbox';
const tracer = trace.getTracer(SCOPE);

export interface SpanStart {
  /** Default: `internal`. */
  readonly kind?: 'client' | 'consumer' | 'producer' | 'server';
  /** Names, ids and counts; never a value of a payload. */
  readonly attributes?: Attributes;
  /** `traceparent` of the span that this one continues; `none`: it begins a trace. Default: the active span. */
  readonly parent?: string | undefined;
  /** `traceparent` of each message that the span deals with, where it has one. */
  readonly links?: readonly (string | undefined)[];
}

/** What may be said of a span while it goes on. */
export interface OpenSpan {
  /** Names the span to messages and to other spans; undefined without an SDK. */
  readonly traceparent: string | undefined;
  set(attributes: Attributes): void;
  /** The work failed. `type` is a code or a class of failures, never an error's message, which may quote payloads. */
  fail(type: string): void;
}

/** A span that goes on over several pieces of work, until it is ended. */
export interface LongSpan extends OpenSpan {
  /** Makes the span the active one while `work` runs. */
  run<T>(work: () => Promise<T>): Promise<T>;
  end(): void;
}

/**
 * Runs `work` in a span of its own, which is active meanwhile and ends with it. An error is noted by its `code` and passes on.
 *
 * This is OpenTelemetry's API alone. Where no SDK is registered nothing is made, because even spans that are nothing cost 4 µs a message (links and
 * parents are parsed for them), and this costs 0.2.
 */
export async function inSpan<T>(name: string, start: SpanStart, work: (span: OpenSpan) => Promise<T>): Promise<T> {
  const span = startSpan(name, start);
  try {
    return await span.run(() => work(span));
  } catch (error) {
    span.fail(codeOf(error));
    throw error;
  } finally {
    span.end();
  }
}

/** Begins a span. Whoever asks for it ends it, or nobody ever sees it. */
export function startSpan(name: string, { kind, attributes = {}, parent, links = [] }: SpanStart): LongSpan {
  if (nobodyTraces()) return NO_SPAN;
  const within = contextOf(parent);
  const span = tracer.startSpan(
    name,
    { kind: kind === undefined ? SpanKind.INTERNAL : KINDS[kind], attributes, links: links.flatMap(linkTo) },
    within,
  );
  return {
    traceparent: traceparentOf(span.spanContext()),
    set: (more) => void span.setAttributes(more),
    fail: (type) => {
      span.setAttribute('error.type', type);
      span.setStatus({ code: SpanStatusCode.ERROR });
    },
    run: (work) => context.with(trace.setSpan(within, span), work),
    end: () => span.end(),
  };
}

/** Names the active span, or is undefined where nobody traces. */
export function activeTraceparent(): string | undefined {
  const active = trace.getActiveSpan();
  return active === undefined ? undefined : traceparentOf(active.spanContext());
}

/** Links the span that is active now to others, later, as soon as they are known. Does nothing where nobody traces. */
export function linkLater(): (traceparent: string | undefined) => void {
  const active = trace.getActiveSpan();
  if (active === undefined) return () => {};
  return (traceparent) => {
    // SDKs from before 1.9 of the API lack it.
    for (const link of linkTo(traceparent)) active.addLink?.(link);
  };
}

/** The API's own provider stands in until an SDK registers one; only then it has a tracer to hand on to. */
function nobodyTraces(): boolean {
  const provider: TracerProvider & { getDelegateTracer?(name: string): unknown } = trace.getTracerProvider();
  return provider.getDelegateTracer !== undefined && provider.getDelegateTracer(SCOPE) === undefined;
}

const NO_SPAN: LongSpan = {
  traceparent: undefined,
  set: () => {},
  fail: () => {},
  run: (work) => work(),
  end: () => {},
};

const KINDS = {
  client: SpanKind.CLIENT,
  consumer: SpanKind.CONSUMER,
  producer: SpanKind.PRODUCER,
  server: SpanKind.SERVER,
};

function contextOf(parent: string | undefined): Context {
  const active = context.active();
  if (parent === 'none') return trace.deleteSpan(active);
  const remote = spanContextOf(parent);
  return remote === undefined ? active : trace.setSpanContext(active, remote);
}

function linkTo(traceparent: string | undefined): Link[] {
  const linked: SpanContext | undefined = spanContextOf(traceparent);
  return linked === undefined ? [] : [{ context: linked }];
}

/** OpenTelemetry's word for an error that has no name of its own: `_OTHER`. */
function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === 'string' && /^[A-Za-z0-9_.]{1,60}$/.test(code) ? code : '_OTHER';
}
