import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { spanContextOf, traceparentOf } from '../../../shared/telemetry/trace-context.ts';
import { isTraceparent, traceparentOfXray, xrayTraceHeader } from '../../../shared/telemetry/index.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

const hex = (length: number) =>
  fc.uint8Array({ minLength: length / 2, maxLength: length / 2 }).map((bytes) => Buffer.from(bytes).toString('hex'));
const id = (length: number) => hex(length).filter((text) => !/^0+$/.test(text));

describe('a W3C trace context', () => {
  it('is read and written without loss, also the flags that nobody knows yet', () => {
    fc.assert(
      fc.property(id(32), id(16), fc.integer({ min: 0, max: 255 }), (traceId, spanId, flags) => {
        const traceparent = `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, '0')}`;
        const span = spanContextOf(traceparent);
        expect(span).toEqual({ traceId, spanId, traceFlags: flags, isRemote: true });
        expect(traceparentOf(span!)).toBe(traceparent);
      }),
    );
  });

  it('crosses the services of AWS and comes back', () => {
    fc.assert(
      fc.property(id(32), id(16), fc.constantFrom('00', '01'), (traceId, spanId, flags) => {
        const traceparent = `00-${traceId}-${spanId}-${flags}`;
        expect(traceparentOfXray(xrayTraceHeader(traceparent))).toBe(traceparent);
      }),
    );
  });

  it.each([
    '',
    'garbage',
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-1`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `01-${TRACE}-${SPAN}-01`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    ` 00-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01\n`,
  ])('is not %j', (text) => {
    expect(isTraceparent(text)).toBe(false);
    expect(spanContextOf(text)).toBeUndefined();
    expect(xrayTraceHeader(text)).toBeUndefined();
  });
});

describe("AWS's trace header", () => {
  const root = `Root=1-${TRACE.slice(0, 8)}-${TRACE.slice(8)}`;

  it.each([
    [`${root};Parent=${SPAN};Sampled=1`, '01'],
    [`${root};Parent=${SPAN};Sampled=0`, '00'],
    // Nobody has decided yet: who does not sample now may not be asked again.
    [`${root};Parent=${SPAN};Sampled=?`, '00'],
    [`${root};Parent=${SPAN}`, '00'],
    [`Sampled=1;Parent=${SPAN};${root};Lineage=1:a87bd80c:0`, '01'],
    [`Self=1-67891234-12456789abcdef012345678;${root}; Parent=${SPAN}; Sampled=1`, '01'],
  ])('%s names a span', (header, flags) => {
    expect(traceparentOfXray(header)).toBe(`00-${TRACE}-${SPAN}-${flags}`);
  });

  it.each([
    undefined,
    '',
    'garbage',
    root,
    `${root};Sampled=1`,
    `Parent=${SPAN};Sampled=1`,
    `Root=2-${TRACE.slice(0, 8)}-${TRACE.slice(8)};Parent=${SPAN};Sampled=1`,
    `Root=1-${TRACE};Parent=${SPAN};Sampled=1`,
    `${root};Parent=${'0'.repeat(16)};Sampled=1`,
    `${root};Parent=${SPAN.toUpperCase()};Sampled=1`,
  ])('%j names none', (header) => {
    expect(traceparentOfXray(header)).toBeUndefined();
  });
});
