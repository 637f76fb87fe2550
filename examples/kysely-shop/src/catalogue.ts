import { defineCatalogue } from 'sealed-outbox/events';

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
