import fc from 'fast-check';
import { expect, it } from 'vitest';
import { idempotencyKey } from '../../../shared/inbox/call-key.ts';

const PLACE = { consumer: 'notifications', eventId: '01890a5d-ac96-774b-bcce-b302099a8057', name: 'mail' };

it('an idempotency key is the same for ever, in every version: providers remember it', () => {
  expect(idempotencyKey(PLACE)).toBe('04c3987d-022c-850f-a2e5-df5a8573e31b');
});

it('an idempotency key is a UUID of version 8', () => {
  fc.assert(
    fc.property(fc.string(), fc.uuid(), fc.string(), (consumer, eventId, name) => {
      expect(idempotencyKey({ consumer, eventId, name })).toMatch(
        /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      );
    }),
  );
});

it('calls that differ in consumer, event or name have different keys, wherever the parts are cut', () => {
  const places = [
    PLACE,
    { ...PLACE, consumer: 'notification' },
    { ...PLACE, eventId: PLACE.eventId.replace('7', '6') },
    { ...PLACE, name: 'mai' },
    { ...PLACE, consumer: `${PLACE.consumer}${PLACE.eventId}`, eventId: '' },
    { ...PLACE, eventId: `${PLACE.eventId}m`, name: 'ail' },
  ];
  expect(new Set(places.map(idempotencyKey)).size).toBe(places.length);
});
