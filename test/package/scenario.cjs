// What somebody's project does with the package, given its modules as `import` or `require` has loaded them. Plain JavaScript: it runs from a fresh
// project on the lowest Node.js that the package supports.
const { randomUUID } = require('node:crypto');
const pg = require('pg');

const { port, name, password } = JSON.parse(process.env.TEST_DATABASE);
const at = (user) => ({ host: '127.0.0.1', port, database: name, user, password });
const silent = { debug() {}, info() {}, warn() {}, error() {} };

/** Appends two events and one that is rolled back, relays them, consumes them twice. Answers with what came of it. */
exports.appendAndConsume = async ({ outbox, events, consumer, database, testing, errors, definition, generated }) => {
  const catalogue = events.compiledCatalogue(definition, generated);
  const writer = outbox.createOutbox({ catalogue });
  const writers = new pg.Pool({ ...at('sealed_writer'), max: 2 });
  const readers = new pg.Pool({ ...at('sealed_analytics'), max: 2 });
  try {
    const id = randomUUID();
    const placed = (items) => ({
      type: 'purchase.placed',
      aggregate: { type: 'purchase', id },
      data: { purchaseId: id, items },
    });
    const append = (items, then = () => {}) =>
      database.transaction(writers, async (tx) => {
        const [event] = await writer.append(tx, [placed(items)]);
        then();
        return event.sequence;
      });
    const rollBack = () => {
      throw new Error('rolled back');
    };
    const sequences = [await append(1), await append(9, rollBack).catch(({ message }) => message), await append(2)];
    const refused = await writer.append(writers, [placed(1)]).catch((error) => error);

    const messages = [];
    const report = await exports.relay(outbox, 'shipping', messages);

    const applied = [];
    const handler = consumer.eventConsumer({
      name: `shipping-${id.slice(0, 8)}`,
      mode: 'strict',
      startingPoint: 'beginning',
      destination: 'shipping',
      catalogue,
      handlers: { 'purchase.placed': async ({ data }) => void applied.push(data.items) },
      pool: readers,
      log: silent,
      metrics: consumer.noMetrics,
    });
    const batch = exports.batchOf(messages.filter(({ groupId }) => groupId.includes(id)));
    const answers = [await handler(batch, testing.lambdaContext()), await handler(batch, testing.lambdaContext())];
    return {
      sequences: sequences.map(String),
      refused: { code: refused.code, name: refused.name, ours: refused instanceof errors.SealedOutboxError },
      relay: report.ended,
      applied,
      returned: answers.flatMap(({ batchItemFailures }) => batchItemFailures).length,
    };
  } finally {
    await Promise.all([writers.end(), readers.end()]);
  }
};

/** Has a relay send everything into `messages`. */
exports.relay = ({ runRelay }, destination, messages) =>
  runRelay({
    connect: async () => {
      const client = new pg.Client(at('sealed_relay'));
      client.on('error', () => {});
      await client.connect();
      return client;
    },
    publishers: {
      [destination]: {
        limits: { entries: 10, bytes: 1_000_000, timeoutMs: 1000 },
        preflight: async () => {},
        publish: async (sent) => {
          messages.push(...sent);
          return sent.map(({ eventId }) => ({ ok: true, messageId: eventId }));
        },
        close() {},
      },
    },
    log: silent,
    slot: 'test',
    mode: 'drain',
  });

/** The messages as Lambda hands them to a consumer of a FIFO queue. */
exports.batchOf = (messages) => ({
  Records: messages.map(({ eventId, body, groupId }) => ({
    messageId: eventId,
    receiptHandle: eventId,
    body,
    attributes: { MessageGroupId: groupId, ApproximateReceiveCount: '1', SentTimestamp: '0' },
    messageAttributes: {},
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:eu-central-1:000000000000:shipping.fifo',
    awsRegion: 'eu-central-1',
  })),
});

/** Every door, by how many names it has. */
exports.doors = (modules) =>
  Object.fromEntries(Object.entries(modules).map(([door, module]) => [door, Object.keys(module).length]));
