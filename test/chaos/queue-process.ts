/**
 * SQS for one run, in a process of its own so that it has a processor while the run works. Ends when its parent does. Its arguments are names of
 * queues; `.fifo` makes one a FIFO queue. Each has a dead-letter queue.
 */
import { startFauxqs } from 'fauxqs';

/** Low, so that the outage of a database already makes dead letters. */
const MAX_RECEIVES = 8;

const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
const queues = process.argv.slice(2).map((name) => {
  const kind = name.endsWith('.fifo') ? { FifoQueue: 'true' } : {};
  const dead = server.createQueue(`dead-${name}`, { attributes: kind });
  const RedrivePolicy = JSON.stringify({
    deadLetterTargetArn: `arn:aws:sqs:us-east-1:000000000000:dead-${name}`,
    maxReceiveCount: MAX_RECEIVES,
  });
  const live = server.createQueue(name, { attributes: { ...kind, RedrivePolicy } });
  return { name: name.replace('.fifo', ''), url: live.queueUrl, dead: dead.queueUrl };
});
console.log(
  JSON.stringify({
    port: server.port,
    urls: Object.fromEntries(queues.map(({ name, url }) => [name, url])),
    dead: Object.fromEntries(queues.map(({ name, dead }) => [name, dead])),
  }),
);
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => {});
