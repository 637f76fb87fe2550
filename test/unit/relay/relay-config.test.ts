import { describe, expect, it } from 'vitest';
import { publishers, relayConfig, RelayConfigError } from '../../../functions/relay/config.ts';

const LEDGER = { kind: 'sqs-fifo', url: 'https://sqs.eu-central-1.amazonaws.com/123456789012/ledger.fifo' };
const ENV = { OUTBOX_SLOT: 'minute', OUTBOX_DESTINATIONS: JSON.stringify({ ledger: LEDGER }) };

describe('the environment of the relay', () => {
  it('needs a slot and destinations, and runs for 150 seconds by default', () => {
    expect(relayConfig(ENV)).toEqual({
      slot: 'minute',
      mode: 'continuous',
      maxSeconds: 150,
      destinations: { ledger: LEDGER },
    });
  });

  it('takes mode and duration where they are set', () => {
    expect(relayConfig({ ...ENV, RELAY_MODE: 'drain', RELAY_MAX_SECONDS: '20' })).toMatchObject({
      mode: 'drain',
      maxSeconds: 20,
    });
    expect(relayConfig({ ...ENV, OUTBOX_CLUSTER: 'invoices-1' })).toMatchObject({ cluster: 'invoices-1' });
  });

  it.each([
    ['RELAY_MODE', 'sometimes'],
    ['RELAY_MAX_SECONDS', ''],
    ['RELAY_MAX_SECONDS', '0'],
    ['RELAY_MAX_SECONDS', 'soon'],
    ['RELAY_MAX_SECONDS', 'Infinity'],
    ['OUTBOX_SLOT', undefined],
    ['OUTBOX_SLOT', ''],
    ['OUTBOX_DESTINATIONS', undefined],
    ['OUTBOX_DESTINATIONS', ''],
    ['OUTBOX_DESTINATIONS', 'not json'],
    ['OUTBOX_DESTINATIONS', 'null'],
    ['OUTBOX_DESTINATIONS', '{}'],
    ['OUTBOX_DESTINATIONS', '"ledger"'],
    ['OUTBOX_DESTINATIONS', JSON.stringify([LEDGER])],
    ['OUTBOX_DESTINATIONS', '{"ledger":null}'],
    ['OUTBOX_DESTINATIONS', '{"ledger":{"kind":"kafka","url":"https://example.com"}}'],
    ['OUTBOX_DESTINATIONS', '{"ledger":{"kind":"sqs-fifo","url":"ledger.fifo"}}'],
    ['OUTBOX_DESTINATIONS', '{"ledger":{"kind":"sqs-fifo"}}'],
    ['OUTBOX_DESTINATIONS', '{"analytics":{"kind":"eventbridge"}}'],
    ['OUTBOX_DESTINATIONS', '{"analytics":{"kind":"eventbridge","bus":""}}'],
    ['OUTBOX_DESTINATIONS', '{"analytics":{"kind":"eventbridge","bus":"with space"}}'],
    ['OUTBOX_DESTINATIONS', '{"analytics":{"kind":"eventbridge","url":"https://example.com"}}'],
  ])('is refused with the name of the variable: %s = %j', (name, value) => {
    const start = () => relayConfig({ ...ENV, [name]: value });
    expect(start).toThrow(RelayConfigError);
    expect(start).toThrow(expect.objectContaining({ code: 'RELAY_CONFIG', message: expect.stringContaining(name) }));
  });

  it('names the destination whose entry is wrong', () => {
    const OUTBOX_DESTINATIONS = JSON.stringify({ ledger: LEDGER, audit: { kind: 'sqs' } });
    expect(() => relayConfig({ ...ENV, OUTBOX_DESTINATIONS })).toThrow('"audit"');
  });

  it.each(['events', 'arn:aws:events:eu-central-1:123456789012:event-bus/events'])('takes a bus: %s', (bus) => {
    const OUTBOX_DESTINATIONS = JSON.stringify({ analytics: { kind: 'eventbridge', bus }, ledger: LEDGER });
    const config = relayConfig({ ...ENV, OUTBOX_DESTINATIONS });
    expect(config.destinations).toEqual({ analytics: { kind: 'eventbridge', bus }, ledger: LEDGER });
    const made = publishers(config);
    expect(made['analytics']?.limits.bytes).toBe(999_999);
    for (const publisher of Object.values(made)) publisher.close();
  });

  it('gives each destination a publisher', () => {
    const made = publishers(relayConfig({ ...ENV, OUTBOX_DESTINATIONS: JSON.stringify({ a: LEDGER, b: LEDGER }) }));
    expect(Object.keys(made)).toEqual(['a', 'b']);
    for (const publisher of Object.values(made)) publisher.close();
  });
});
