/** Fields that many commands share. */
export const position = {
  type: 'string',
  pattern: '^[1-9][0-9]{0,17}$',
  description: "the delivery's position, as the lists show it",
} as const;

export const destination = {
  type: 'string',
  pattern: '^[a-z][a-z0-9-]{0,62}$',
  description: 'a destination of the catalogue',
} as const;

export const consumer = {
  type: 'string',
  pattern: '^[a-z][a-z0-9-]{0,62}$',
  description: "the consumer's name",
} as const;

export const eventId = {
  type: 'string',
  format: 'uuid',
  description: "the event's id, as `held list` shows it",
} as const;

export const aggregateType = {
  type: 'string',
  minLength: 1,
  maxLength: 128,
  description: 'the type of the aggregate, such as invoice',
} as const;

export const aggregateId = {
  type: 'string',
  minLength: 1,
  maxLength: 200,
  description: 'the id of the aggregate',
} as const;

export const replayNumber = {
  type: 'integer',
  minimum: 1,
  maximum: 2_147_483_647,
  description: 'the number of the replay',
} as const;

export const limit = {
  type: 'integer',
  minimum: 1,
  maximum: 1000,
  description: 'how many at most, 1 to 1000',
} as const;

export const after = {
  type: 'string',
  minLength: 1,
  maxLength: 100,
  description: '`next` of the page before',
} as const;

export const data = {
  type: 'boolean',
  description: 'also what the event says; sealed values stay sealed. The audit keeps that it was asked for',
} as const;
