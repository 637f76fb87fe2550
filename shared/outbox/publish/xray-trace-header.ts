/** `00-<trace id>-<parent id>-<flags>`; an id of zeros alone is no id. */
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{8})([0-9a-f]{24})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;

/** A W3C `traceparent` as AWS's services write it, or undefined where it is none: a trace is never worth an event. */
export function xrayTraceHeader(traceparent: string): string | undefined {
  const [, time, random, parent, flags] = TRACEPARENT.exec(traceparent) ?? [];
  if (flags === undefined) return undefined;
  return `Root=1-${time}-${random};Parent=${parent};Sampled=${Number.parseInt(flags, 16) & 1}`;
}
