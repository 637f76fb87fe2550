import { describe, expect, it } from 'vitest';
import { causedBy } from '../../../shared/outbox/cause.ts';

const EVENT = { type: 'thing.made', aggregate: { type: 'thing', id: '1' }, data: {} };
const ID = '01890a5d-ac96-774b-bcce-b302099a8057';
const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const cause = (correlationid?: string, traceparent?: string) => ({ id: ID, correlationid, traceparent });

describe('an event that follows from another', () => {
  it.each([undefined, ''])('begins a chain where that one is in none (%j)', (correlationid) => {
    expect(causedBy(cause(correlationid), EVENT).metadata).toEqual({ causationid: ID, correlationid: ID });
  });

  it('goes on with the chain and the trace of that one', () => {
    expect(causedBy(cause('order-7', TRACEPARENT), EVENT)).toEqual({
      ...EVENT,
      metadata: { causationid: ID, correlationid: 'order-7', traceparent: TRACEPARENT },
    });
  });

  it('keeps what it says of itself', () => {
    const own = { correlationid: 'mine', traceparent: TRACEPARENT };
    expect(causedBy(cause('order-7'), { ...EVENT, metadata: own }).metadata).toEqual({ ...own, causationid: ID });
  });

  it.each(['x'.repeat(1000), 'ş'.repeat(300), '"'.repeat(300)])(
    'shortens a correlation id beside which the others would find no room, each time to the same',
    (long) => {
      const { metadata } = causedBy(cause(long, TRACEPARENT), EVENT);
      expect(metadata?.correlationid).toMatch(/^[0-9a-f]{64}$/);
      expect(causedBy(cause(metadata?.correlationid), EVENT).metadata?.correlationid).toBe(metadata?.correlationid);
    },
  );

  it('always has room for all three', () => {
    const { metadata } = causedBy(cause('x'.repeat(510), TRACEPARENT), EVENT);
    expect(metadata?.correlationid).toHaveLength(510);
    expect(Buffer.byteLength(JSON.stringify(metadata)) + 6).toBeLessThanOrEqual(1024);
  });
});
