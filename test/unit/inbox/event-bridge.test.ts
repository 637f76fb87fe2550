import { describe, expect, it } from 'vitest';
import { envelopeOf, messageUuid } from '../../../shared/inbox/event-bridge.ts';
import { counterEnvelope } from '../../support/counter-events.ts';

describe('envelopeOf', () => {
  const envelope = counterEnvelope({ counter: 'a', sequence: 1, data: { amount: 1, secret: '"detail-type"' } });

  it('gives the detail of an event of EventBridge', () => {
    const body = JSON.stringify({ 'detail-type': 'counter.added', id: 'x', detail: JSON.parse(envelope) as unknown });
    expect(JSON.parse(envelopeOf(body))).toEqual(JSON.parse(envelope));
  });

  it.each([
    ['an envelope', envelope],
    ['an envelope whose data speaks of EventBridge', envelope.replace('{"amount"', '{"detail-type":"x","amount"')],
    ['no JSON', '"detail-type'],
    ['an event without detail', '{"detail-type":"x","id":"y"}'],
    ['a list', '[{"detail-type":"x"}]'],
  ])('leaves %s as it is', (_what, body) => {
    expect(envelopeOf(body)).toBe(body);
  });
});

describe('messageUuid', () => {
  it('keeps a UUID and makes one of anything else, the same each time', () => {
    expect(messageUuid('01890A5D-ac96-774b-bcce-b302099a8057')).toBe('01890a5d-ac96-774b-bcce-b302099a8057');
    expect(messageUuid('anything')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
    expect(messageUuid('anything')).toBe(messageUuid('anything'));
    expect(messageUuid('anything')).not.toBe(messageUuid('something'));
  });
});
