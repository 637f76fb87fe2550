import { declareConsumer, defineCatalogue } from 'sealed-outbox/events';

/** The shop's events. `npm run generate` compiles the schemas. */
export const definition = defineCatalogue({
  source: '/shop',
  destinations: { shipping: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
  events: {
    'purchase.placed': {
      aggregate: 'purchase',
      whenParked: 'block',
      destinations: ['shipping'],
      versions: {
        1: {
          type: 'object',
          additionalProperties: false,
          required: ['purchaseId', 'items'],
          properties: {
            purchaseId: { type: 'string', format: 'uuid' },
            items: { type: 'integer', minimum: 1 },
          },
        },
      },
    },
  },
} as const);

/** Who makes parcels. Its function and the stack both take it from here: what its mode needs is checked before anything is deployed. */
export const shipping = declareConsumer(definition, {
  name: 'shipping',
  mode: 'strict',
  startingPoint: 'beginning',
  destination: 'shipping',
  handles: ['purchase.placed'],
});
