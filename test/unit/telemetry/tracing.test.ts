import { describe, expect, it, vi } from 'vitest';
import { activeTraceparent, inSpan } from '../../../shared/telemetry/index.ts';
import { type RecordedSpan, recordSpans } from '../../support/spans.ts';

const CALLER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

let spans: RecordedSpan[] = [];

describe('a span', () => {
  it('is nothing without an SDK: the work is done, its error passes, no message gets a trace that nobody records', async () => {
    const answer = await inSpan('work', { parent: CALLER, links: [CALLER] }, async (span) => {
      span.set({ any: 1 });
      span.fail('any');
      return [span.traceparent, activeTraceparent()];
    });
    expect(answer).toEqual([undefined, undefined]);
    const failure = new Error('of the work');
    await expect(inSpan('work', {}, () => Promise.reject(failure))).rejects.toBe(failure);
  });

  it('is made as soon as an SDK is registered, active while its work runs, and ended with it', async () => {
    spans = recordSpans();
    const seen = await inSpan('outer', {}, async (outer) => {
      const inner = await inSpan('inner', {}, async (span) => [span.traceparent, activeTraceparent()]);
      return { outer: outer.traceparent, inner, after: activeTraceparent() };
    });
    expect(seen.inner[0]).toBe(seen.inner[1]);
    expect(seen.after).toBe(seen.outer);
    expect(activeTraceparent()).toBeUndefined();
    const [outer, inner] = spans;
    expect(inner?.parent).toBe(outer?.context);
    expect(spans.map(({ name, ended }) => [name, ended])).toEqual([
      ['outer', true],
      ['inner', true],
    ]);
  });

  it.each([
    [Object.assign(new Error('a value'), { code: 'ECONNRESET' }), 'ECONNRESET'],
    [Object.assign(new Error('a value'), { code: 'a value' }), '_OTHER'],
    [new Error('a value'), '_OTHER'],
    ['a value', '_OTHER'],
    [undefined, '_OTHER'],
  ])('notes an error by its code, never by what it says: %s', async (error, type) => {
    const failing = vi.fn<() => Promise<void>>().mockRejectedValue(error);
    await expect(inSpan('work', {}, failing)).rejects.toBe(error);
    const span = spans.at(-1);
    expect(span?.attributes).toEqual({ 'error.type': type });
    expect(JSON.stringify(span)).not.toContain('a value');
  });
});
